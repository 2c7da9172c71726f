package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/ratelimit"
)

// A Control asks a limiter and applies the rules of a route. It is safe for concurrent
// use.
type Control struct {
	limiter    *ratelimit.Limiter
	onDecision func(Decision)
	local      *local
	rules      Rules
}

// New returns a Control with the zero Rules: it refuses what the limiter refuses, and
// lets everything pass while Redis is down. onDecision, if not nil, is called for each
// decision. Many goroutines call it at the same time, and it must not block.
func New(limiter *ratelimit.Limiter, onDecision func(Decision)) *Control {
	if onDecision == nil {
		onDecision = func(Decision) {}
	}
	return &Control{limiter: limiter, onDecision: onDecision, local: &local{since: time.Now()}}
}

// With returns a Control with the rules of a route. It shares everything else with c,
// including what this node counts while Redis is down.
func (c *Control) With(rules Rules) *Control {
	other := *c
	other.rules = rules
	return &other
}

// Admit calls Allow of the limiter, applies the rules and reports the decision. The
// request may pass if the error is nil. The error is a *LimitedError (use errors.As) if a
// bucket refused the request. It wraps ratelimit.ErrUnavailable if Redis is down and the
// policy is Closed. Other errors are the same as for Allow. If a request passes because
// Redis is down and the policy is Open, the Result names no bucket.
func (c *Control) Admit(ctx context.Context, cost int, buckets ...ratelimit.Bucket) (ratelimit.Result, error) {
	result, err := c.limiter.Allow(ctx, cost, buckets...)
	allowed, denied := Allowed, Denied
	switch {
	case err == nil:
		if result.Remembered {
			denied = Remembered
		}
	case !errors.Is(err, ratelimit.ErrUnavailable):
		return ratelimit.Result{}, err
	case c.rules.WhenAway == Local:
		result, err = c.local.take(int64(cost), buckets, time.Now()), nil
		allowed, denied = LocalAllowed, LocalDenied
	case c.rules.WhenAway == Open, c.rules.WhenAway == "":
		result, err = ratelimit.Result{Allowed: true}, nil
		allowed = FailedOpen
	default:
		denied = FailedClosed
	}
	decision := Decision{Route: c.rules.Route, Outcome: allowed, Shadow: c.rules.Shadow}
	if !result.Allowed {
		decision.Bucket, decision.Outcome = result.Bucket, denied
	}
	c.onDecision(decision)
	switch {
	case c.rules.Shadow:
		return ratelimit.Result{Allowed: true}, nil
	case err == nil && !result.Allowed:
		err = &LimitedError{Result: result}
	}
	return result, err
}

// A LimitedError describes a refused request.
type LimitedError struct{ Result ratelimit.Result }

// Error returns a sentence for logs. Result contains its parts.
func (e *LimitedError) Error() string {
	if e.Result.Never {
		return fmt.Sprintf("ratelimit: the cost is above the burst of %s (%v)", e.Result.Bucket, e.Result.Limit)
	}
	return fmt.Sprintf("ratelimit: limited by %s (%v), next in %v", e.Result.Bucket, e.Result.Limit, e.Result.RetryAfter)
}
