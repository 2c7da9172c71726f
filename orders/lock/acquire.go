package lock

import (
	"context"
	"time"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// TryAcquire takes the lock if it is free, in one round trip, as Locker says. A lock
// that others wait for is not free.
func (c *Client) TryAcquire(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return c.leases.TryAcquire(ctx, key, options, c.take)
}

// take stands in line if the call waits and has no policy of its own. Otherwise it asks
// by that policy, or once.
func (c *Client) take(call *lease.Call) (*Lock, error) {
	if err := onredis.CheckKey(call.Key); err != nil {
		return nil, err
	}
	if call.Waiting != nil && call.Retry == nil {
		return c.attempt(call).wait()
	}
	return call.Poll(func(call *lease.Call) (*Lock, error) {
		l, _, err := c.attempt(call).ask("")
		return l, err
	})
}

// An attempt is one caller's way to a lock, however often it asks.
type attempt struct {
	*lease.Call
	client *Client
	token  string
	sent   []time.Time // when it sent each of its questions
}

func (c *Client) attempt(call *lease.Call) *attempt {
	return &attempt{Call: call, client: c, token: onredis.NewToken(call.Lease)}
}

// ask asks for the lock. With a channel it also stands in line. With ErrHeld it
// returns how long the holder has left, negative if its key never expires.
func (a *attempt) ask(channel string) (*Lock, time.Duration, error) {
	a.sent = append(a.sent, time.Now())
	return a.client.store.Take(a.Call, a.token, channel, len(a.sent)-1, a.Note)
}
