package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/ratelimit"
)

// Control asks a limiter and applies the rules of a route. It is safe for concurrent
// use.
type Control struct {
	limiter    *ratelimit.Limiter
	onDecision func(Decision)
	local      *local
	rules      Rules
}

// New returns a Control with the zero Rules: it refuses what the limiter refuses, and
// lets everything pass while Redis is away. onDecision, if not nil, hears of each
// decision. Many goroutines call it at once, and it must not block.
func New(limiter *ratelimit.Limiter, onDecision func(Decision)) *Control {
	if onDecision == nil {
		onDecision = func(Decision) {}
	}
	return &Control{limiter: limiter, onDecision: onDecision, local: &local{since: time.Now()}}
}

// With returns a Control with a route's rules. It shares all else with c, also what this
// node counts while Redis is away.
func (c *Control) With(rules Rules) *Control {
	other := *c
	other.rules = rules
	return &other
}

// Admit calls Allow of the limiter, applies the rules and reports the decision. A nil
// error lets the request pass. A *LimitedError (for errors.As) says that a bucket refused
// it, ratelimit.ErrUnavailable that Redis is away and the policy is Closed. The other
// errors are Allow's. A request that passes because Redis is away (Open) has a Result
// without a bucket.
func (c *Control) Admit(ctx context.Context, cost int, buckets ...ratelimit.Bucket) (ratelimit.Result, error) {
	result, err := c.limiter.Allow(ctx, cost, buckets...)
	yes, no := Allowed, Denied
	switch {
	case err == nil:
		if result.Remembered {
			no = Remembered
		}
	case !errors.Is(err, ratelimit.ErrUnavailable):
		return ratelimit.Result{}, err
	case c.rules.WhenAway == Local:
		result, err = c.local.take(int64(cost), buckets, time.Now()), nil
		yes, no = LocalAllowed, LocalDenied
	case c.rules.WhenAway == Open, c.rules.WhenAway == "":
		result, err = ratelimit.Result{Allowed: true}, nil
		yes = FailedOpen
	default:
		no = FailedClosed
	}
	decision := Decision{Route: c.rules.Route, Outcome: yes, Shadow: c.rules.Shadow}
	if !result.Allowed {
		decision.Bucket, decision.Outcome = result.Bucket, no
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

// LimitedError says that a request was refused, and by which bucket.
type LimitedError struct{ Result ratelimit.Result }

// Error is a sentence for logs; Result has its parts.
func (e *LimitedError) Error() string {
	if e.Result.Never {
		return fmt.Sprintf("ratelimit: the cost is above the burst of %s (%v)", e.Result.Bucket, e.Result.Limit)
	}
	return fmt.Sprintf("ratelimit: limited by %s (%v), next in %v", e.Result.Bucket, e.Result.Limit, e.Result.RetryAfter)
}
