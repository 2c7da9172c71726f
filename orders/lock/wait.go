package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// Acquire takes the lock, waiting until ctx ends while someone else holds it:
// see Locker. With Config.Retry it asks again by that.
//
// Else it waits in line, with the waiters of other processes in the order in
// which they came, and the release hands it the lock by a message: no further
// round trip, and nobody to race with. Of the callers that want one key through
// the same Client, one at a time is in that line; the others stand behind it in
// order of arrival. If the message is lost or the holder is dead, the waiter asks
// when the holder's lease must have ended, and at a third of its own in any case.
//
// An exchange with Redis that has begun when ctx ends is finished first, and
// taken back, so Acquire may return up to twice Config.Timeout late.
func (c *Client) Acquire(ctx context.Context, key string) (*lease.Lock, error) {
	return c.leases.Acquire(ctx, key, func(began time.Time) (*lease.Lock, error) {
		if c.leases.Retry != nil {
			return c.leases.Poll(ctx, key, func() (*lease.Lock, error) { return c.try(ctx, key, began) })
		}
		if err := onredis.CheckKey(key); err != nil {
			return nil, err
		}
		a := &attempt{client: c, ctx: ctx, key: key, token: rand.Text(), began: began}
		return a.wait()
	})
}

// wait stands in line until the lock is held.
func (a *attempt) wait() (*lease.Lock, error) {
	c := a.client
	w := c.waits.enter(a.token)
	defer c.waits.leave(a.token)
	for {
		if err := c.leases.Ready(a.ctx); err != nil {
			return nil, a.giveUp(err)
		}
		l, left, err := a.ask(c.waits.channel)
		if !errors.Is(err, lease.ErrHeld) {
			return l, err
		}
		if len(a.sent) == 1 {
			c.leases.Waits(a.ctx, a.key)
		}
		granted, err := a.sit(w, left)
		if err != nil {
			return nil, a.giveUp(err)
		}
		if granted < 0 || granted >= len(a.sent) {
			continue // ask
		}
		// The server had our question of that number before it gave us the lock,
		// so the lease began after that was sent: no need to ask what we know.
		if time.Since(a.sent[granted]) < c.leases.Lease/2 {
			return a.hold(a.sent[granted])
		}
	}
}

// giveUp leaves the line, and passes on a lock that was handed over meanwhile.
func (a *attempt) giveUp(cause error) error {
	if len(a.sent) == 0 {
		return cause
	}
	if _, err := a.client.store.Erase(a.ctx, a.key, a.token); errors.Is(err, lease.ErrUnknown) {
		return fmt.Errorf("%w: %w: %w", lease.ErrUnknown, cause, err)
	}
	return cause
}

// spread keeps the nodes that wait for a dead holder from coming all at once.
const spread = 20 * time.Millisecond

// sit waits for the lock, or for a reason to ask again: -1 then, else the number
// of the question that was granted. The holder has left, negative if for ever; a
// renewal may prolong that, which only costs another look.
func (a *attempt) sit(w *waiter, left time.Duration) (granted int, err error) {
	c := a.client
	d := c.leases.Lease/4 + nap.Jitter(c.leases.Lease/12) // three times before we are taken for dead
	if left > 0 {
		// The key is gone once its last millisecond is over.
		d = min(d, left+time.Millisecond+nap.Jitter(spread))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case granted = <-w.granted:
		return granted, nil
	case <-w.again:
	case <-timer.C:
	case <-a.ctx.Done():
		return 0, lease.Ended(a.ctx)
	case <-c.leases.Stopped():
		return 0, lease.ErrStopped
	}
	return -1, nil
}
