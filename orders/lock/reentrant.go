package lock

import (
	"context"
	"crypto/rand"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed enter.lua
	enterSource string
	//go:embed reenter.lua
	reenterSource string
	//go:embed leave.lua
	leaveSource string
)

// A Reentrant takes locks for one owner, who may take again what they hold:
// each time is a Lock of its own, and the key is free when the last is released.
// Others wait by asking (Config.Retry), in no order.
//
// Whoever knows the owner's name is the owner: two goroutines, or two processes,
// under one name are not kept apart. Its keys are not those of a Client: one key
// must be used by one kind of lock only.
type Reentrant struct {
	asker
	store
	owner                 string
	enter, reenter, leave script
}

var _ Locker = (*Reentrant)(nil)

// NewReentrant returns the locks of one owner. Without Config.Retry it asks by
// Backoff from 5 ms to 100 ms. It panics on a Config that Validate refuses.
func NewReentrant(rdb redis.UniversalClient, owner string, cfg Config) *Reentrant {
	if cfg.Retry == nil {
		cfg.Retry = Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	r := &Reentrant{
		store: newStore(rdb, cfg), owner: owner,
		enter: newScript(enterSource), reenter: newScript(reenterSource), leave: newScript(leaveSource),
	}
	r.asker = asker{NewLeases(r, cfg), r.attempt}
	return r
}

// Remaining is the Locker's.
func (r *Reentrant) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return r.remaining(ctx, keys)
}

func (r *Reentrant) attempt(ctx context.Context, key string, began time.Time) (*Lock, error) {
	entry, sent := rand.Text(), time.Now()
	left, err := r.asking.eval(ctx, r.enter, []string{key}, entry, r.owner, r.cfg.Lease.Milliseconds())
	if err == nil && left != 0 {
		return nil, ErrHeld
	}
	if err == nil {
		var l *Lock
		if l, err = r.leases.Hold(ctx, key, entry, sent, began); err == nil {
			return l, nil
		}
	}
	return nil, takeBack(ctx, err, func() error { _, err := r.erase(ctx, key, entry); return err })
}

// Renew is the Store's. Owners are few and so are their locks: one by one.
func (r *Reentrant) Renew(ctx context.Context, locks []*Lock) []error {
	errs := make([]error, len(locks))
	for i, l := range locks {
		n, err := r.reenter.Run(ctx, r.rdb, []string{l.key}, l.token, r.cfg.Lease.Milliseconds()).Int64()
		if err == nil {
			err = verdict(n)
		}
		errs[i] = err
	}
	return errs
}

// Release is the Store's.
func (r *Reentrant) Release(ctx context.Context, l *Lock) (doubt bool, err error) {
	return r.erase(ctx, l.key, l.token)
}

func (r *Reentrant) erase(ctx context.Context, key, entry string) (doubt bool, err error) {
	return erase(ctx, r.cfg.Timeout, func(ctx context.Context) (int64, error) {
		return r.erasing.eval(ctx, r.leave, []string{key}, entry)
	})
}
