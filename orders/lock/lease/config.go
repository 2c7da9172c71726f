package lease

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config contains the settings of a lock client. The zero Config has the defaults.
type Config struct {
	// Lease is the time for which the store keeps a lock without a renewal. A crashed
	// holder blocks other callers for this time. Run renews the lock at a third of it.
	// Lease is rounded up to whole milliseconds; the minimum is 10 ms, the default 5 s.
	Lease time.Duration

	// Drift is the margin by which the holder's Context ends before the lease does. It
	// covers clocks that run at different rates and timers that fire late. It must be
	// less than half the lease; the default is a twentieth of the lease.
	Drift time.Duration

	// Timeout bounds each exchange with the store, including retries of the client
	// library. It must be less than the lease; the default is a fifth of the lease, but
	// at most 1 s.
	Timeout time.Duration

	// MaxHold limits how long one holder may keep a lock by renewing it. After that
	// time, the lock's context ends with ErrMaxHold. The default 0 means no limit.
	MaxHold time.Duration

	// Retry makes Acquire poll by this policy. Waiters are then served in no particular
	// order, except by a semaphore, which keeps the order of arrival. If Retry is nil, a
	// lock.Client waits in order of arrival and a release wakes the first waiter; other
	// packages document their default at New.
	Retry Retry

	// Note describes the holder to callers of lock.Client.Observe: a name, a job or an
	// address, for example. Without a Note, Observe does not report since when the lock
	// is held. The limit is 256 bytes. Other stores ignore it.
	Note string

	// Prefix is the first part of the name of the channel on which a lock.Client receives locks
	// that are handed over. Other stores ignore it. The default is none.
	Prefix string

	// Hooks are called on events of the lock. The default is none.
	Hooks Hooks

	// Logger receives failures of renewals and subscriptions. The default is
	// slog.Default().
	Logger *slog.Logger
}

// An Option changes the Config for one call. It may set Lease, Drift, MaxHold, Retry, Note
// and Hooks. It receives the Config as it was passed to New, without the defaults: a Lease
// that was left out is 0.
//
//	l, err := locks.Acquire(ctx, key, func(c *lease.Config) { c.Lease = time.Minute })
type Option func(*Config)

// WithDefaults returns c with defaults in the fields that are zero.
func (c Config) WithDefaults() Config {
	// The server counts whole milliseconds. If the lease were rounded down, it could end
	// on the server before it ends here.
	c.Lease = (cmp.Or(c.Lease, 5*time.Second) + time.Millisecond - 1).Truncate(time.Millisecond)
	c.Drift = cmp.Or(c.Drift, c.Lease/20)
	c.Timeout = cmp.Or(c.Timeout, min(c.Lease/5, time.Second))
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns an error that lists every invalid field.
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
