package lock

import (
	"context"
	"crypto/rand"
	"time"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// TryAcquire takes the lock if it is free, in one round trip: see Locker. While
// others wait for the lock it is not free.
func (c *Client) TryAcquire(ctx context.Context, key string) (*lease.Lock, error) {
	return c.leases.TryAcquire(ctx, key, func(began time.Time) (*lease.Lock, error) { return c.try(ctx, key, began) })
}

// try is one attempt of somebody who doesn't wait in line.
func (c *Client) try(ctx context.Context, key string, began time.Time) (*lease.Lock, error) {
	if err := onredis.CheckKey(key); err != nil {
		return nil, err
	}
	a := attempt{client: c, ctx: ctx, key: key, token: rand.Text(), began: began}
	l, _, err := a.ask("")
	return l, err
}

// An attempt is one caller's, from the first time that it asks to the lock.
type attempt struct {
	client *Client
	ctx    context.Context // the caller's
	key    string
	token  string
	began  time.Time
	sent   []time.Time // when it has asked, as often as it has
}

// ask asks for the lock, in line if the channel is not empty. With ErrHeld it
// returns how long the holder has left, negative if its key never expires.
func (a *attempt) ask(channel string) (*lease.Lock, time.Duration, error) {
	c := a.client
	// The lease starts when the server runs the script, which is after this
	// instant even if go-redis sends the script several times: counted from
	// here, ours ends first.
	sent := time.Now()
	a.sent = append(a.sent, sent)
	left, err := c.store.Question(a.ctx, a.key, a.token, channel, len(a.sent)-1)
	switch {
	case err != nil:
		return nil, 0, c.store.TakeBack(a.ctx, a.key, a.token, err)
	case left != 0:
		return nil, time.Duration(left) * time.Millisecond, lease.ErrHeld
	}
	l, err := a.hold(sent)
	return l, 0, err
}

// hold has the lock since, at the earliest, something was sent.
func (a *attempt) hold(sent time.Time) (*lease.Lock, error) {
	l, err := a.client.leases.Hold(a.ctx, a.key, a.token, sent, a.began)
	if err != nil {
		return nil, a.client.store.TakeBack(a.ctx, a.key, a.token, err)
	}
	return l, nil
}
