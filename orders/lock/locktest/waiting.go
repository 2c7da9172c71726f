package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// A cancelled wait returns ErrHeld with the context's error and cause, and leaves nothing in
// the store.
func cancelledWait(_ *testing.T, s *suite) {
	waits := make(chan struct{}, 1)
	a := s.process(lease.Config{})
	b := s.process(lease.Config{Hooks: lease.Hooks{Waiting: func(context.Context, string) { waits <- struct{}{} }}})
	l := s.acquire(a)
	tired := errors.New("tired of waiting")
	ctx, cancel := context.WithCancelCause(s.ctx)
	gaveUp := make(chan error)
	go func() { _, err := b.Acquire(ctx, s.key); gaveUp <- err }()
	s.waiting(waits, 1)
	cancel(tired)
	err := <-gaveUp
	for _, want := range []error{lease.ErrHeld, context.Canceled, tired} {
		if !errors.Is(err, want) {
			s.Errorf("acquire: got error %v, want %v", err, want)
		}
	}
	if errors.Is(err, lease.ErrUnknown) {
		s.Errorf("acquire: got error %v, want a known outcome", err)
	}
	check.Must(s, l.Context().Err())
	check.Must(s, l.Release(s.ctx))
	s.wantFree(a)
	s.wantFree(b)
}

// Acquire fails without Run, because the lock would not be renewed.
func notRunning(_ *testing.T, s *suite) {
	p := s.idle(lease.Config{Timeout: 100 * time.Millisecond})
	check.Is(s, check.Err(p.Acquire(s.ctx, s.key)), lease.ErrNotRunning)
}

// waiting waits until the n-th process waits. If the store has Waiters, the hook may be called
// too early, so waiting also counts the waiters at the servers.
func (s *suite) waiting(hook <-chan struct{}, n int) {
	s.Helper()
	check.Receive(s, "a caller waits", hook)
	if s.Waiters != nil {
		check.Eventually(s, "the request is queued", func() bool { return s.Waiters(s, s.key) == n })
	}
}

// Waiting processes are all served, and in the order of their requests if the store promises
// that.
func order(_ *testing.T, s *suite) {
	a := s.process(lease.Config{})
	l := s.acquire(a)
	var mu sync.Mutex
	var served []int
	var all sync.WaitGroup
	for i := range 5 {
		waits := make(chan struct{}, 1)
		p := s.process(lease.Config{Hooks: lease.Hooks{Waiting: func(context.Context, string) { waits <- struct{}{} }}})
		all.Go(func() {
			l, err := p.Acquire(s.ctx, s.key)
			if err != nil {
				s.Errorf("acquire in the queue: got error %v, want none", err)
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			check.OK(s, l.Release(s.ctx))
		})
		s.waiting(waits, i+1)
	}
	check.Must(s, l.Release(s.ctx))
	all.Wait()
	if !s.InOrder {
		slices.Sort(served) // the store promises no order
	}
	if !slices.Equal(served, []int{0, 1, 2, 3, 4}) {
		s.Errorf("waiters: got the order %v, want [0 1 2 3 4]", served)
	}
}

// Each of a thousand waiters acquires the lock. If waiters poll, the test uses fewer of them,
// because polling takes longer.
func thousandsOfWaiters(_ *testing.T, s *suite) {
	waiters := 50
	switch {
	case !servertest.Thorough():
	case s.InOrder:
		waiters = 1000
	default:
		waiters = 200
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	l := s.acquire(a)
	var all sync.WaitGroup
	for _, p := range []*process{a, b} {
		for range waiters {
			all.Go(func() {
				l, err := p.Acquire(ctx, s.key)
				if err == nil {
					err = l.Release(ctx)
				}
				if err != nil {
					cancel(err) // one failure ends the test
				}
			})
		}
	}
	check.Must(s, l.Release(ctx))
	all.Wait()
	check.Must(s, context.Cause(ctx))
	s.wantFree(a)
}
