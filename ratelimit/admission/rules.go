// Package admission applies the limiter's answer to the requests of a route: it lets a
// request pass or refuses it, also while Redis is down, and reports the decision. Package
// ratelimit asks Redis. Package httplimit has a middleware that combines both.
package admission

import (
	"fmt"
	"slices"
)

// A Policy describes how requests are handled while Redis is down, that is, after
// ErrUnavailable. The zero Policy means Open.
type Policy string

const (
	// Open lets all requests pass, so that a failed limiter does not stop the service.
	Open Policy = "open"
	// Closed refuses all requests with ratelimit.ErrUnavailable.
	Closed Policy = "closed"
	// Local counts requests in this process alone, with the same limits and full buckets
	// at the beginning. Together, n nodes allow n times the limit. Each node remembers
	// the 16,384 most recently used buckets, or a few more, so that a flood of addresses
	// cannot fill the memory.
	Local Policy = "local"
)

// UnmarshalText sets p from open, closed or local. With it, a Policy can be a flag or a
// configuration value.
func (p *Policy) UnmarshalText(text []byte) error {
	if !slices.Contains([]Policy{Open, Closed, Local}, Policy(text)) {
		return fmt.Errorf("ratelimit: the policy %q is not one of open, closed, local", text)
	}
	*p = Policy(text)
	return nil
}

// Rules describe how a route applies the limiter's answers (Control.With).
type Rules struct {
	// Route is the name of the route in its decisions. It is not part of any key.
	Route string
	// WhenAway is the policy while Redis is down.
	WhenAway Policy
	// Shadow lets all requests pass, while decisions are still made and reported. Use it
	// to try out a limit. The Result names no bucket, so clients receive no headers.
	// Tokens are taken for the requests that would have been allowed.
	Shadow bool
}

// An Outcome describes a decision.
type Outcome string

// Outcomes of a Decision. A request whose context ended, or whose error is
// ratelimit.ErrBadRequest, is not reported.
const (
	Allowed      Outcome = "allowed"
	Denied       Outcome = "denied"
	Remembered   Outcome = "remembered" // denied once more, without asking Redis
	FailedOpen   Outcome = "failed_open"
	FailedClosed Outcome = "failed_closed"
	LocalAllowed Outcome = "local_allowed"
	LocalDenied  Outcome = "local_denied"
)

// A Decision is the report on one request, for the onDecision of New.
type Decision struct {
	Route   string
	Bucket  string // name of the bucket that refused, or ""
	Outcome Outcome
	Shadow  bool // the request passed, whatever the outcome
}
