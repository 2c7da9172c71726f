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

// open is a Client that runs until the test ends.
func open(t *testing.T, r *servertest.Redis, cfg lease.Config) *Client {
	rdb := servertest.Connect(t, r.URL)
	c := New(rdb, places, cfg)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { check.Must(t, c.Run(ctx)) })
	t.Cleanup(func() { stop(); running.Wait() })
	return c
}

// patient is for a machine that is busy.
var patient = lease.Config{Lease: time.Minute, Timeout: 20 * time.Second}

// Many want a place, from two processes: never more than there are have one, all
// have one at a time, and each of them a number of its own.
func TestPlaces(t *testing.T) {
	servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) {
		clients := []*Client{open(t, r, patient), open(t, r, patient)}
		var here, most atomic.Int64
		var numbers sync.Map
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				c := clients[i%2]
				l, err := c.Acquire(t.Context(), "{pool}")
				if err != nil {
					t.Error(err)
					return
				}
				n, err := c.Raise(t.Context(), l)
				if _, had := numbers.LoadOrStore(n, true); err != nil || had {
					t.Errorf("number %d: %v, had before: %v", n, err, had)
				}
				for now := here.Add(1); ; {
					if was := most.Load(); now <= was || most.CompareAndSwap(was, now) {
						break
					}
				}
				here.Add(-1)
				check.OK(t, l.Release(t.Context()))
			})
		}
		all.Wait()
		if n := most.Load(); n > places {
			t.Errorf("%d at a time, with %d places", n, places)
		}
		// All of them at the same time, and not one more.
		var held []*lease.Lock
		for range places {
			l, err := clients[0].TryAcquire(t.Context(), "{pool}")
			check.Must(t, err)
			held = append(held, l)
		}
		check.Is(t, check.Err(clients[1].TryAcquire(t.Context(), "{pool}")), lease.ErrHeld)
		if left, err := clients[1].Remaining(t.Context(), "{pool}", "{free}"); err != nil || left[0] <= 0 || left[1] != 0 {
			t.Errorf("remaining %v, %v", left, err)
		}
		for _, l := range held {
			check.Must(t, l.Release(t.Context()))
			if _, err := clients[0].Raise(t.Context(), l); !errors.Is(err, lease.ErrExpired) {
				t.Errorf("a number after the release: %v", err)
			}
		}
	})
}

// A free place goes to who has waited for longest, and not to who has just come;
// who died waiting keeps nobody from it for longer than a lease.
func TestLine(t *testing.T) {
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
		brief.store.Asking.Timeout, brief.store.Asking.Group.MaxWait = time.Minute, time.Minute // only the lease is short
		_, err := brief.attempt(&lease.Call{Leases: brief.leases, Ctx: ctx, Key: "{pool}"}, dead, 1)
		if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		check.Must(t, held[0].Release(ctx))
		check.Is(t, check.Err(c.TryAcquire(ctx, "{pool}")), lease.ErrHeld)
		l, err := c.Acquire(ctx, "{pool}") // once the dead one is known to be
		check.Must(t, err)
		if r.Kind == servers.KindReal {
			if n := c.store.RDB.ZCard(ctx, "{pool}:line").Val(); n != 0 {
				t.Errorf("%d in line", n)
			}
		}
		for _, l := range append(held[1:], l) {
			check.Must(t, l.Release(ctx))
		}
	})
}
