// Package redlock implements locks on the majority of several independent Redis masters.
package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// A Client acquires locks on the majority of several independent Redis masters. The loss of
// a minority neither blocks nor frees a lock. (Salvatore Sanfilippo, "Distributed locks
// with Redis".)
//
// The client asks all masters at the same time, each for at most Config.Timeout, and does not
// wait for further answers once a majority has decided. The lock is held if a majority has
// granted it and the lease, counted from before the first request and reduced by the drift, is
// not over. Otherwise the client releases it on all masters, and late grants do not count. If a
// master loses its vote, the next renewal restores it. Waiters poll by Config.Retry and are
// served in no particular order. If two callers try at once, both may receive only a minority and
// return ErrHeld.
//
// Redlock has limits. If a master's clock jumps, its vote expires early; if a master
// restarts without its data in less than a lease, its vote is lost. A second holder may then
// find a majority. And a holder may pause between checking its context and writing. Writes
// under the lock therefore need a fencing token: see package fence.
type Client struct {
	*lease.Acquirer
	leases  *lease.Leases
	masters *masters
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client on independent masters, whose number should be odd, such as three or
// five. Set ContextTimeoutEnabled in their options, and DialerRetries to 1: otherwise
// dialing a master that is down uses up the Timeout of every attempt.
//
// The default of Config.Timeout is 100 ms, but at most a fifth of the lease. The default of
// Config.Retry is lease.Backoff from 5 ms to 100 ms. New panics if cfg is invalid or masters
// is empty.
func New(masters []redis.UniversalClient, cfg lease.Config) *Client {
	if len(masters) == 0 {
		panic("redlock: no masters")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = min(cfg.WithDefaults().Lease/5, 100*time.Millisecond)
	}
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	r := &Client{masters: newMasters(masters, cfg)}
	r.leases = lease.NewLeases(r.masters, cfg)
	r.Acquirer = lease.NewAcquirer(r.leases, func(c *lease.Call) (*lease.Lock, error) { return c.Poll(r.attempt) })
	return r
}

// Run implements lease.Locker. It returns after the last call to a master has ended.
func (r *Client) Run(ctx context.Context) error {
	defer func() { _ = r.masters.late.Wait(context.WithoutCancel(ctx)) }()
	return r.Acquirer.Run(ctx)
}

func (r *Client) attempt(c *lease.Call) (*lease.Lock, error) {
	ctx, key := c.Ctx, c.Key
	if err := onredis.CheckKey(key); err != nil {
		return nil, err
	}
	token, sent := onredis.NewToken(c.Lease), time.Now()
	err := r.masters.ask(ctx, func(ctx context.Context, s *onredis.Store) error {
		_, err := s.Ask(ctx, key, token, c.Lease)
		return err
	})
	if err == nil {
		var l *lease.Lock
		if l, err = c.Hold(token, sent); err == nil {
			return l, nil
		}
	}
	// Release on all masters, because a master whose answer was lost may have granted it.
	_, eraseErr := r.masters.erase(ctx, key, token)
	switch {
	case errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrStopped):
		return nil, err
	case ctx.Err() != nil:
		err = errors.Join(lease.Ended(ctx), err)
	}
	if errors.Is(eraseErr, lease.ErrUnknown) {
		err = fmt.Errorf("%w (and the votes were not taken back: %w)", err, eraseErr)
	}
	return nil, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// Remaining implements lease.Locker. It returns the time for which a majority keeps each
// lock, and fails if a majority does not answer.
func (r *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	answers := make([][]time.Duration, len(r.masters.all))
	errs := r.masters.askAll(func(i int, s *onredis.Store) (err error) { answers[i], err = s.Remaining(ctx, keys...); return err })
	if err := decide(errs, r.masters.quorum()); err != nil {
		return nil, err
	}
	left := make([]time.Duration, len(keys))
	for k := range keys {
		left[k] = r.taken(answers, k)
	}
	return left, nil
}

// taken returns the longest time for which a majority keeps the key. A master without an
// answer counts as part of the majority, because waiting is safer than assuming that the
// lock is free.
func (r *Client) taken(answers [][]time.Duration, key int) (longest time.Duration) {
	for _, candidate := range answers {
		if candidate == nil || candidate[key] <= longest {
			continue
		}
		votes := 0
		for _, a := range answers {
			if a == nil || a[key] >= candidate[key] {
				votes++
			}
		}
		if votes >= r.masters.quorum() {
			longest = candidate[key]
		}
	}
	return longest
}
