package lock

import (
	"context"
	"time"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// TryAcquire takes the lock if it is free, in one round trip, as Locker says. A lock
// that others wait for is not free.
func (c *Client) TryAcquire(ctx context.Context, key string, options ...lease.Option) (*lease.Lock, error) {
	return c.leases.TryAcquire(ctx, key, options, c.try)
}

// try asks once, without standing in line.
func (c *Client) try(call *lease.Call) (*lease.Lock, error) {
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
func (a *attempt) ask(channel string) (*lease.Lock, time.Duration, error) {
	store := a.client.store
	// The lease starts when the server runs the script. That is after this instant,
	// even if go-redis sends the script several times. So counted from here, our
	// lease ends before the server's.
	sent := time.Now()
	a.sent = append(a.sent, sent)
	left, err := store.Question(a.Call, a.token, channel, len(a.sent)-1)
	switch {
	case err != nil:
		return nil, 0, store.TakeBack(a.Ctx, a.Key, a.token, err)
	case left != 0:
		return nil, time.Duration(left) * time.Millisecond, lease.ErrHeld
	}
	l, err := a.hold(sent)
	return l, 0, err
}

// hold begins a lease that the server began after sent.
func (a *attempt) hold(sent time.Time) (*lease.Lock, error) {
	l, err := a.Hold(a.token, sent)
	if err != nil {
		return nil, a.client.store.TakeBack(a.Ctx, a.Key, a.token, err)
	}
	return l, nil
}
