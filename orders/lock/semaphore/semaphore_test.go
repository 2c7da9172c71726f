package semaphore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

const places = 3

// open returns a Client that runs until the test ends.
func open(t *testing.T, r *servertest.Redis, cfg lease.Config) *Client {
	rdb := servertest.Connect(t, r.URL)
	c := New(rdb, places, cfg)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { check.Must(t, c.Run(ctx)) })
	t.Cleanup(func() { stop(); running.Wait() })
	return c
}

// patient has long timeouts, for a busy machine.
var patient = lease.Config{Lease: time.Minute, Timeout: 20 * time.Second}

// Callers of two processes never hold more than the given number of places, can hold all of
// them, and each receive a different fencing token.
func TestPlacesAreLimited(t *testing.T) {
	servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) {
		clients := []*Client{open(t, r, patient), open(t, r, patient)}
		var holders, highest atomic.Int64
		var tokens sync.Map
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				c := clients[i%2]
				l, err := c.Acquire(t.Context(), "{pool}")
				if err != nil {
					t.Errorf("acquire a place: got error %v, want none", err)
					return
				}
				n, err := c.Raise(t.Context(), l)
				if _, issued := tokens.LoadOrStore(n, true); err != nil || issued {
					t.Errorf("raise: got token %d, error %v, issued before: %t, want a new token", n, err, issued)
				}
				for now := holders.Add(1); ; {
					if was := highest.Load(); now <= was || highest.CompareAndSwap(was, now) {
						break
					}
				}
				holders.Add(-1)
				check.OK(t, l.Release(t.Context()))
			})
		}
		all.Wait()
		if n := highest.Load(); n > places {
			t.Errorf("holders of the semaphore: got %d at a time, want at most %d", n, places)
		}
		var held []*lease.Lock
		for range places {
			l, err := clients[0].TryAcquire(t.Context(), "{pool}")
			check.Must(t, err)
			held = append(held, l)
		}
		check.Is(t, check.Err(clients[1].TryAcquire(t.Context(), "{pool}")), lease.ErrHeld)
		if left, err := clients[1].Remaining(t.Context(), "{pool}", "{free}"); err != nil || left[0] <= 0 || left[1] != 0 {
			t.Errorf("remaining times of a held and a free lock: got %v, error %v, want more than 0, then 0", left, err)
		}
		for _, l := range held {
			check.Must(t, l.Release(t.Context()))
			if _, err := clients[0].Raise(t.Context(), l); !errors.Is(err, lease.ErrExpired) {
				t.Errorf("raise after the release: got error %v, want ErrExpired", err)
			}
		}
	})
}

// A free place goes to the first waiter, not to a new caller. A crashed waiter blocks it for at
// most one lease.
func TestFreePlaceGoesToFirstWaiter(t *testing.T) {
	servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) {
		ctx, c := t.Context(), open(t, r, patient)
		var held []*lease.Lock
		for range places {
			l, err := c.TryAcquire(ctx, "{pool}")
			check.Must(t, err)
			held = append(held, l)
		}
		const dead = "dead"
		brief := open(t, r, lease.Config{Lease: 4 * time.Second})
		brief.store.Asking.Timeout, brief.store.Asking.Group.MaxWait = time.Minute, time.Minute // a busy machine may be slow
		_, err := brief.attempt(&lease.Call{Leases: brief.leases, Ctx: ctx, Key: "{pool}"}, dead, 1)
		if !errors.Is(err, lease.ErrHeld) {
			t.Fatalf("acquire a place: got error %v, want ErrHeld", err)
		}
		check.Must(t, held[0].Release(ctx))
		check.Is(t, check.Err(c.TryAcquire(ctx, "{pool}")), lease.ErrHeld)
		l, err := c.Acquire(ctx, "{pool}") // succeeds when the deadline of the crashed waiter has passed
		check.Must(t, err)
		if r.Kind == servers.KindReal {
			if n := c.store.RDB.ZCard(ctx, "{pool}:line").Val(); n != 0 {
				t.Errorf("queue of the semaphore: got %d waiters, want 0", n)
			}
		}
		for _, l := range append(held[1:], l) {
			check.Must(t, l.Release(ctx))
		}
	})
}
