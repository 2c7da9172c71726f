package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/lease"
)

// Acquire implements Locker. If Config.Retry is set, it polls by that policy.
//
// Otherwise it waits in a queue in Redis that all processes share, in order of arrival.
// A release hands the lock to the first waiter by a message, which costs the waiter no
// further round trip. Each Client has one caller per key in that queue at a time. Its
// other callers wait behind that one, in order of arrival. In case the message is lost or
// the holder has crashed, the waiter asks again when the holder's lease must have ended,
// and at the latest after a third of its own lease.
//
// If ctx ends during an exchange with Redis, Acquire finishes the exchange and releases
// what it has acquired. It may therefore return up to twice Config.Timeout after ctx ends.
func (c *Client) Acquire(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return c.leases.Acquire(ctx, key, options, c.take)
}

// wait stays in the wait queue until it has acquired the lock.
func (a *attempt) wait() (*Lock, error) {
	c := a.client
	w := c.waits.enter(a.token)
	defer c.waits.waiters.Delete(a.token)
	for {
		if err := a.Ready(a.Ctx); err != nil {
			return nil, a.giveUp(err)
		}
		l, left, err := a.ask(c.waits.channel)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		if len(a.sent) == 1 {
			a.Waits()
		}
		granted, err := a.sit(w, left)
		if err != nil {
			return nil, a.giveUp(err)
		}
		if granted < 0 || granted >= len(a.sent) {
			continue // ask again
		}
		// The message contains the index of the last request that Redis had from us when
		// it granted the lock. The lease began after that request was sent, so the
		// deadline can be counted from there, without another round trip.
		if time.Since(a.sent[granted]) < a.Lease/2 {
			return c.store.Hold(a.Call, a.token, a.sent[granted])
		}
	}
}

// giveUp leaves the wait queue. If Redis has granted the lock in the meantime, giveUp
// releases it to the next waiter.
func (a *attempt) giveUp(cause error) error {
	if len(a.sent) == 0 {
		return cause
	}
	if _, err := a.client.store.Erase(a.Ctx, a.Key, a.token); errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %w: %w", ErrUnknown, cause, err)
	}
	return cause
}

// spread is the time over which waiters spread their requests when a lease ends.
const spread = 20 * time.Millisecond

// sit waits for a grant or for a reason to ask again. It returns the index of the granted
// request, or -1 to ask again. left is the holder's remaining time when Redis answered,
// or negative if the key never expires.
func (a *attempt) sit(w *waiter, left time.Duration) (granted int, err error) {
	d := a.Lease/4 + nap.Jitter(a.Lease/12) // three requests before the place in the queue expires
	if left > 0 {
		// Redis deletes the key after its last millisecond.
		d = min(d, left+time.Millisecond+nap.Jitter(spread))
	}
	select {
	case granted = <-w.granted:
		return granted, nil
	case <-w.missed:
	case <-time.After(d):
	case <-a.Waiting.Done():
		return 0, lease.Ended(a.Waiting)
	}
	return -1, nil
}
