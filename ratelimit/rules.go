package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Policy says what becomes of requests while Redis doesn't answer.
type Policy int

const (
	// Open lets them pass: the limiter is no reason to stop selling.
	Open Policy = iota
	// Closed refuses them with ErrUnavailable.
	Closed
	// Local counts them in this process alone, by the same limits, beginning
	// with full buckets: n nodes let through n times as much. Of the buckets
	// that are asked least, those beyond some ten thousand are forgotten, so
	// that a flood of addresses can't fill the memory.
	Local
)

var policyNames = []string{"open", "closed", "local"}

// String is the policy's name.
func (p Policy) String() string {
	if p < 0 || int(p) >= len(policyNames) {
		return fmt.Sprintf("Policy(%d)", int(p))
	}
	return policyNames[p]
}

// UnmarshalText makes a Policy a flag and a configuration value: open, closed
// or local.
func (p *Policy) UnmarshalText(text []byte) error {
	i := slices.Index(policyNames, string(text))
	if i < 0 {
		return fmt.Errorf("ratelimit: the policy %q is not one of open, closed, local", text)
	}
	*p = Policy(i)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Rules are what is done beside counting. Each route may have its own
// (Limiter.With). Where none were given, Admit, Wait and the middleware go by the
// zero Rules: Open, and enforced.
type Rules struct {
	// Route names the route in its decisions. It has no part in keys.
	Route string
	// WhenAway is what becomes of requests while Redis doesn't answer.
	WhenAway Policy
	// Shadow counts and reports, and refuses nobody: to see what a limit would
	// do before it does. Everybody passes with an empty Result, so clients see
	// no header; tokens are taken by those who would have got them.
	Shadow bool
}

// Outcome is how a request left the limiter.
type Outcome string

// The outcomes. Requests whose caller went away, or that were asked wrongly,
// are none of them.
const (
	Allowed      Outcome = "allowed"
	Denied       Outcome = "denied"
	Remembered   Outcome = "remembered" // denied once more, without asking Redis
	FailedOpen   Outcome = "failed_open"
	FailedClosed Outcome = "failed_closed"
	LocalAllowed Outcome = "local_allowed"
	LocalDenied  Outcome = "local_denied"
)

// Decision is one request's, as Config.OnDecision hears of it.
type Decision struct {
	Route   string // Rules.Route
	Bucket  string // the name of the one that refused, else empty
	Outcome Outcome
	Shadow  bool // the route's rules refuse nobody: it passed, whatever the outcome
}

// Admit is Allow for handlers that want a verdict: it applies the limiter's
// Rules, reports the decision, and returns a *LimitedError (for errors.As) when
// the request is refused. The other errors are Allow's; when failing open there
// is none, and the Result names no bucket.
func (l *Limiter) Admit(ctx context.Context, cost int, buckets ...Bucket) (Result, error) {
	a, err := newAsk(cost, buckets)
	if err != nil {
		return Result{}, err
	}
	return l.judge(ctx, a)
}

func (l *Limiter) judge(ctx context.Context, a ask) (Result, error) {
	var rules Rules
	if l.rules != nil {
		rules = *l.rules
	}
	result, err := l.decide(ctx, a)
	yes, no := Allowed, Denied
	switch {
	case err == nil:
		if result.Remembered {
			no = Remembered
		}
	case !errors.Is(err, ErrUnavailable):
		return Result{}, err
	case rules.WhenAway == Local:
		result, err = a.result(l.local.take(a, l.config.Clock())), nil
		yes, no = LocalAllowed, LocalDenied
	case rules.WhenAway == Open:
		result, err = Result{Allowed: true}, nil
		yes = FailedOpen
	default:
		no = FailedClosed
	}
	allowed := err == nil && result.Allowed
	decision := Decision{Route: rules.Route, Outcome: yes, Shadow: rules.Shadow}
	if !allowed {
		decision.Bucket, decision.Outcome = result.Bucket, no
	}
	l.config.OnDecision(decision)
	switch {
	case rules.Shadow:
		return Result{Allowed: true}, nil
	case allowed:
		return result, nil
	case err != nil:
		return Result{}, err
	}
	return result, &LimitedError{Result: result}
}
