package lease

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says how locks are held and waited for, whatever the store. The zero Config
// has the defaults.
type Config struct {
	// Lease is how long the store keeps a lock that nobody renews, and so how long
	// a dead holder blocks the others. Run renews at a third of it. Rounded up to
	// whole milliseconds, at least 10 ms; default 5 s.
	Lease time.Duration

	// Drift is how much earlier than the lease the holder's Context ends: room for
	// clocks that run at different rates and for a timer that fires late. Less than
	// half the lease; default a twentieth of it.
	Drift time.Duration

	// Timeout bounds each exchange with the store, the client library's own
	// retries included. Less than the lease; default a fifth of it, at most 1 s.
	Timeout time.Duration

	// MaxHold is the longest that one holder may keep a lock, renewed or not. Then its
	// context ends with ErrMaxHold. Default 0: no limit.
	MaxHold time.Duration

	// Retry, if set, has Acquire ask again by this policy, in no order (but a semaphore
	// keeps the order). If nil, the default, a lock.Client waits in order of arrival and
	// is woken by the release. The other packages say at New what they do.
	Retry Retry

	// Note is what Observe of a lock.Client tells of the holder: a name, a job, an
	// address. Only with a Note does Observe tell since when the lock is held. At most
	// 256 bytes; default none. Other stores ignore it.
	Note string

	// Hooks are told what happens. Default: none.
	Hooks Hooks

	// Logger hears of renewals and subscriptions that fail. Default
	// slog.Default().
	Logger *slog.Logger
}

// An Option changes the Config for one call. It may set Lease, Drift, MaxHold, Retry, Note
// and Hooks. It sees New's Config without the defaults: a Lease that New was not given
// is 0 there.
//
//	l, err := locks.Acquire(ctx, key, func(c *lease.Config) { c.Lease = time.Minute })
type Option func(*Config)

// WithDefaults is c with the defaults for what was left out.
func (c Config) WithDefaults() Config {
	// The server counts whole milliseconds: a lease rounded down could end there before
	// it ends here.
	c.Lease = (cmp.Or(c.Lease, 5*time.Second) + time.Millisecond - 1).Truncate(time.Millisecond)
	c.Drift = cmp.Or(c.Drift, c.Lease/20)
	c.Timeout = cmp.Or(c.Timeout, min(c.Lease/5, time.Second))
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate reports every field that New would refuse.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf("lock: "+format, args...))
		}
	}
	refuse(c.Lease < 10*time.Millisecond, "Lease %v: want at least 10ms", c.Lease)
	refuse(c.Drift < 0 || c.Drift >= c.Lease/2, "Drift %v: want 0 to half the lease of %v", c.Drift, c.Lease)
	refuse(c.Timeout < 0 || c.Timeout >= c.Lease, "Timeout %v: want more than 0 and less than the lease of %v", c.Timeout, c.Lease)
	refuse(c.MaxHold < 0, "MaxHold %v: want more than 0, or 0 for no limit", c.MaxHold)
	refuse(len(c.Note) > 256, "a Note of %d bytes: want at most 256", len(c.Note))
	return errors.Join(errs...)
}
