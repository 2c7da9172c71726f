package lock

import (
	"context"
	"time"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// TryAcquire implements Locker, in one round trip. A lock that has waiters counts as
// held.
func (c *Client) TryAcquire(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return c.leases.TryAcquire(ctx, key, options, c.take)
}

// take joins the wait queue if the call waits and has no Config.Retry. Otherwise it polls
// by that policy, or tries once.
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

// An attempt is the state of one TryAcquire or Acquire. All its requests use one token.
type attempt struct {
	*lease.Call
	client *Client
	token  string
	sent   []time.Time // the time at which each request was sent
}

func (c *Client) attempt(call *lease.Call) *attempt {
	return &attempt{Call: call, client: c, token: onredis.NewToken(call.Lease)}
}

// ask sends one request for the lock. With a channel, the request also joins the wait
// queue or renews the place in it. With ErrHeld, ask returns the holder's remaining time,
// which is negative if the key never expires.
func (a *attempt) ask(channel string) (*Lock, time.Duration, error) {
	a.sent = append(a.sent, time.Now())
	return a.client.store.Take(a.Call, a.token, channel, len(a.sent)-1, a.Note)
}
