// Package admission is what a route does with the limiter's answer: it lets the request
// pass or refuses it, also while Redis is away, and reports what it decided. Package
// ratelimit asks Redis. Package httplimit has a middleware that does all of this.
package admission

import (
	"fmt"
	"slices"
)

// Policy says what becomes of requests while Redis is away: after ErrUnavailable. The
// zero Policy is Open.
type Policy string

const (
	// Open lets all of them pass: the limiter is no reason to stop selling.
	Open Policy = "open"
	// Closed refuses them with ratelimit.ErrUnavailable.
	Closed Policy = "closed"
	// Local counts them in this process alone, by the same limits, beginning with
	// full buckets: n nodes let through n times as much. It remembers the 16,384
	// buckets that were used last, or a few more, so that a flood of addresses
	// can't fill the memory.
	Local Policy = "local"
)

// UnmarshalText reads open, closed or local, so that a Policy can be a flag or a
// configuration value.
func (p *Policy) UnmarshalText(text []byte) error {
	if !slices.Contains([]Policy{Open, Closed, Local}, Policy(text)) {
		return fmt.Errorf("ratelimit: the policy %q is not one of open, closed, local", text)
	}
	*p = Policy(text)
	return nil
}

// Rules say what a route does with the limiter's answers. Each route may have its own
// (Control.With).
type Rules struct {
	// Route names the route in its decisions. It has no part in keys.
	Route string
	// WhenAway is what becomes of requests while Redis doesn't answer.
	WhenAway Policy
	// Shadow counts and reports, and refuses nobody: to try out a limit. Everybody
	// passes, and the Result names no bucket, so clients see no header. Tokens are
	// taken by those who would have got them.
	Shadow bool
}

// Outcome is how a request left the limiter.
type Outcome string

// The outcomes. A request whose context ended, or that is a ratelimit.ErrBadRequest, has
// none, and is not reported.
const (
	Allowed      Outcome = "allowed"
	Denied       Outcome = "denied"
	Remembered   Outcome = "remembered" // denied once more, without asking Redis
	FailedOpen   Outcome = "failed_open"
	FailedClosed Outcome = "failed_closed"
	LocalAllowed Outcome = "local_allowed"
	LocalDenied  Outcome = "local_denied"
)

// Decision is what was decided on one request, for New's onDecision.
type Decision struct {
	Route   string // Rules.Route
	Bucket  string // the name of the bucket that refused, else empty
	Outcome Outcome
	Shadow  bool // the route's rules refuse nobody: it passed, whatever the outcome
}
