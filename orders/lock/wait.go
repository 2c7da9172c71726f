package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/lease"
)

// Acquire takes the lock, and waits until ctx ends while someone else holds it, as
// Locker says. With Config.Retry it asks again by that policy.
//
// Without Config.Retry it waits in a line that all processes share, in order of
// arrival. The release hands it the lock by a message: there is no further round trip,
// and nobody to race with. One caller of each Client at a time stands in that line
// for a key; the Client's other callers stand behind it, in order of arrival. If the
// message is lost or the holder is dead, the waiter asks again when the holder's lease
// must have ended, and in any case before a third of its own lease has passed.
//
// An exchange with Redis that is under way when ctx ends is finished first, and
// what it took is given back. So Acquire may return up to twice Config.Timeout late.
func (c *Client) Acquire(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return c.leases.Acquire(ctx, key, options, c.take)
}

// wait stands in line until the lock is held.
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
			continue // ask
		}
		// The message names our question that the server had when it gave us the
		// lock. The lease began after that question was sent: no need to ask again.
		if time.Since(a.sent[granted]) < a.Lease/2 {
			return c.store.Hold(a.Call, a.token, a.sent[granted])
		}
	}
}

// giveUp leaves the line. If the lock was handed over meanwhile, it goes to the next.
func (a *attempt) giveUp(cause error) error {
	if len(a.sent) == 0 {
		return cause
	}
	if _, err := a.client.store.Erase(a.Ctx, a.Key, a.token); errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %w: %w", ErrUnknown, cause, err)
	}
	return cause
}

// spread is over how long the waiters for a dead holder spread their questions.
const spread = 20 * time.Millisecond

// sit waits for the lock, or for a reason to ask again. It returns the number of the
// question that was granted, or -1 to ask again. left is how long the holder has,
// negative if for ever. If a renewal prolongs that, sit costs one question too many.
func (a *attempt) sit(w *waiter, left time.Duration) (granted int, err error) {
	d := a.Lease/4 + nap.Jitter(a.Lease/12) // three times before the server takes us for dead
	if left > 0 {
		// The key is gone once its last millisecond is over.
		d = min(d, left+time.Millisecond+nap.Jitter(spread))
	}
	select {
	case granted = <-w.granted:
		return granted, nil
	case <-w.again:
	case <-time.After(d):
	case <-a.Waiting.Done():
		return 0, lease.Ended(a.Waiting)
	}
	return -1, nil
}
