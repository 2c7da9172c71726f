package lock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// The subscription's connection breaks, and the lock is released in the meantime. The waiter
// asks again after the reconnection.
func TestWaiterAsksAfterReconnection(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		p := newWire(t, s)
		waiter := p.client(t, far)
		listening(t, waiter)
		wantHandOver(t, s, waiter, func() {}, p.Cut, p.Restore)
	})
}

// The subscription's connection is silent from the beginning. The client detects this and
// subscribes again, and the waiter asks again.
func TestSilentConnectionIsReplaced(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		p := newWire(t, s)
		waiter := p.idle(t, far)
		waiter.waits.heartbeat = 100 * time.Millisecond
		lost := p.MuteAnswers(1, with(waiter.waits.channel))
		wantHandOver(t, s, waiter, func() {
			run(t, waiter)
			check.Eventually(t, "the confirmation is lost", func() bool { return lost() > 0 })
		}, func() {}, func() {})
	})
}

// wantHandOver checks that waiter acquires a lock that another client releases. It calls held
// once the other client holds the lock, and before and after around the release.
func wantHandOver(t *testing.T, s server, waiter *Client, held, before, after func()) {
	t.Helper()
	ctx := check.Context(t)
	l, err := s.client(t, far).TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	held()
	next := make(chan error, 1)
	go func() { next <- check.Err(waiter.Acquire(ctx, "lock:{sku}")) }()
	check.Eventually(t, "the waiter is in the queue", func() bool { return queueLen(t, s, "lock:{sku}") == 1 })
	before()
	check.Must(t, l.Release(ctx))
	after()
	check.OK(t, check.Receive(t, "the waiter receives the lock", next))
}

// A message may arrive late. The lease therefore counts from the request that was granted,
// not from the message.
func TestLeaseCountsFromGrantedRequest(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		var renewed atomic.Int64
		hooked := far
		hooked.Hooks.Renewed = func(context.Context, string, error) { renewed.Add(1) }
		holder, waiter := s.client(t, far), s.client(t, hooked)
		listening(t, waiter)
		l, err := holder.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		got := make(chan *lease.Lock, 1)
		go func() {
			l, err := waiter.Acquire(ctx, "lock:{sku}")
			check.OK(t, err)
			got <- l
		}()
		check.Eventually(t, "the waiter is in the queue", func() bool { return queueLen(t, s, "lock:{sku}") == 1 })
		before := time.Now()
		check.Must(t, l.Release(ctx))
		<-got
		if waiter.leases.Renew(ctx, before.Add(far.Lease/3)); renewed.Load() == 0 {
			t.Error("renewal a third of a lease after the release: got none, want one")
		}
	})
}

// listening waits until the subscription of c is confirmed.
func listening(t *testing.T, c *Client) {
	check.Eventually(t, "the client listens", func() bool { return Listens(c) })
}
