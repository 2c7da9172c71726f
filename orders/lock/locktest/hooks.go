package locktest

import (
	"context"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// The hooks tell what happens, each thing once, and nothing else.
func hooks(_ *testing.T, s *suite) {
	heard := make(chan string, 1000)
	say := func(what string) func(context.Context, string) {
		return func(context.Context, string) { heard <- what }
	}
	expect := func(want string) {
		s.Helper()
		for {
			what := check.Receive(s, want, heard)
			if what == want {
				return
			}
			if what != "renewed" { // the number of renewals is not fixed
				s.Errorf("heard %q, want %q", what, want)
			}
		}
	}
	a := s.process(lease.Config{})
	b := s.process(lease.Config{Lease: s.Lease, Hooks: lease.Hooks{
		Waiting:  say("waiting"),
		Acquired: func(ctx context.Context, key string, _ time.Duration) { say("acquired")(ctx, key) },
		Renewed: func(ctx context.Context, key string, err error) {
			if err == nil {
				say("renewed")(ctx, key)
			}
		},
		Lost: func(ctx context.Context, key string, cause error) {
			if cause != nil {
				say("lost")(ctx, key)
			}
		},
		Released: func(ctx context.Context, key string, _ time.Duration, err error) {
			check.Must(s, err)
			say("released")(ctx, key)
		},
	}})
	theirs := s.acquire(a)
	waiting, giveUp := context.WithCancel(s.ctx)
	gone := make(chan error)
	go func() { _, err := b.Acquire(waiting, s.key); gone <- err }()
	expect("waiting")
	giveUp() // of which nothing is told
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
