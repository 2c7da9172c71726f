package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says how locks are held and waited for, whatever store keeps them. The
// zero Config has the defaults.
type Config struct {
	// Lease is how long the store keeps a lock that nobody renews: so long does
	// a dead holder block the others. Renewed at a third of it. Rounded up to
	// whole milliseconds, at least 10 ms; default 5 s.
	Lease time.Duration

	// Drift is how much earlier than the store a holder considers its lease
	// over: room for clocks that run at different rates and for a timer that
	// fires late. Less than half the lease; default a twentieth of it.
	Drift time.Duration

	// Timeout bounds each exchange with the store, the client library's own
	// retries included. Less than the lease; default a fifth of it, at most 1 s.
	Timeout time.Duration

	// MaxHold is the longest that one holder may keep a lock, however well it
	// renews: its context ends then, with ErrMaxHold. Default 0: no limit.
	MaxHold time.Duration

	// Retry, if set, has Acquire ask again by this policy, in no order. Default
	// nil: in order of arrival, woken by the release, where the store can do so.
	Retry Retry

	// Hooks are told what happens. Default: none.
	Hooks Hooks

	// Logger hears of renewals and subscriptions that fail. Default
	// slog.Default().
	Logger *slog.Logger
}

// WithDefaults is c with the defaults for what was left out.
func (c Config) WithDefaults() Config {
	if c.Lease == 0 {
		c.Lease = 5 * time.Second
	}
	// The server counts whole milliseconds: rounding down would let it end the
	// lease before we do.
	c.Lease = (c.Lease + time.Millisecond - 1).Truncate(time.Millisecond)
	if c.Drift == 0 {
		c.Drift = c.Lease / 20
	}
	if c.Timeout == 0 {
		c.Timeout = min(c.Lease/5, time.Second)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate reports every field that New would refuse.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	if c.Lease < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("lock: Lease %v: want at least 10ms", c.Lease))
	}
	if c.Drift < 0 || c.Drift >= c.Lease/2 {
		errs = append(errs, fmt.Errorf("lock: Drift %v: want 0 to half the lease of %v", c.Drift, c.Lease))
	}
	if c.Timeout < 0 || c.Timeout >= c.Lease {
		errs = append(errs, fmt.Errorf("lock: Timeout %v: want more than 0 and less than the lease of %v", c.Timeout, c.Lease))
	}
	if c.MaxHold < 0 {
		errs = append(errs, fmt.Errorf("lock: MaxHold %v: want more than 0, or 0 for no limit", c.MaxHold))
	}
	return errors.Join(errs...)
}
