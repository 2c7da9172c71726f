package locktest

import (
	"context"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// Each event calls its hook once.
func hooks(_ *testing.T, s *suite) {
	events := make(chan string, 1000)
	record := func(event string) func(context.Context, string) {
		return func(context.Context, string) { events <- event }
	}
	expect := func(want string) {
		s.Helper()
		for {
			event := check.Receive(s, want, events)
			if event == want {
				return
			}
			if event != "renewed" { // the number of renewals is not fixed
				s.Errorf("hook of the client: got event %q, want %q", event, want)
			}
		}
	}
	a := s.process(lease.Config{})
	b := s.process(lease.Config{Lease: s.Lease, Hooks: lease.Hooks{
		Waiting:  record("waiting"),
		Acquired: func(ctx context.Context, key string, _ time.Duration) { record("acquired")(ctx, key) },
		Renewed: func(ctx context.Context, key string, err error) {
			if err == nil {
				record("renewed")(ctx, key)
			}
		},
		Lost: func(ctx context.Context, key string, cause error) {
			if cause != nil {
				record("lost")(ctx, key)
			}
		},
		Released: func(ctx context.Context, key string, _ time.Duration, err error) {
			check.Must(s, err)
			record("released")(ctx, key)
		},
	}})
	theirs := s.acquire(a)
	waiting, giveUp := context.WithCancel(s.ctx)
	gone := make(chan error)
	go func() { _, err := b.Acquire(waiting, s.key); gone <- err }()
	expect("waiting")
	giveUp() // calls no hook
	check.Is(s, <-gone, context.Canceled)
	got := make(chan *lease.Lock, 1)
	go func() {
		l, err := b.Acquire(s.ctx, s.key)
		check.OK(s, err)
		got <- l
	}()
	expect("waiting")
	check.Must(s, theirs.Release(s.ctx))
	expect("acquired")
	expect("renewed")
	if l := <-got; l != nil {
		check.Must(s, l.Release(s.ctx))
		expect("released")
		check.Must(s, l.Release(s.ctx)) // a second release is not reported
	}
	s.acquire(b)
	expect("acquired")
	s.Steal(s, s.key)
	expect("lost")
}
