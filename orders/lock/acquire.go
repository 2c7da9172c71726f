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
	return c.leases.TryAcquire(ctx, key, options, c.try)
}

// try asks once, without standing in line.
func (c *Client) try(call *lease.Call) (*Lock, error) {
	if err := onredis.CheckKey(call.Key); err != nil {
		return nil, err
	}
	l, _, err := c.attempt(call).ask("")
	return l, err
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
