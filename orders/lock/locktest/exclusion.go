package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
)

const rounds = 5 // additions per goroutine

// Several processes increment a number by a read and a write, under the lock and its fence.
// The broken twin, without a lock, must fail the same check.
func oneHolder(t *testing.T, s *suite) {
	processes, goroutines := 3, 3
	if s.Reentrant {
		processes, goroutines = 9, 1
	}
	var lockers []lease.Locker
	var fences []fence.Issuer
	for range processes {
		p := s.process(lease.Config{})
		lockers, fences = append(lockers, p.Locker), append(fences, s.Fence(s, p.Locker))
	}
	check.OK(t, s.additions(lockers, fences, goroutines))
	// The broken twin: no lock, and a fence that always issues the same token.
	for i := range lockers {
		lockers[i], fences[i] = noLock{lockers[i], lease.NewLeases(nothing{}, lease.Config{})}, fence.Issuer(&sameFence{})
	}
	if err := s.additions(lockers, fences, goroutines); err == nil {
		t.Error("check without a lock: it passed, want a failure")
	}
}

func (s *suite) additions(lockers []lease.Locker, fences []fence.Issuer, goroutines int) error {
	workers := len(lockers) * goroutines
	h, r := &history{}, &resource{}
	// Without a lock, all processes read before the first one writes.
	var arrived sync.WaitGroup
	arrived.Add(len(lockers))
	add := func(process, g int) error {
		for round := range rounds {
			began := h.clock.Add(1)
			l, fence, err := fence.Acquire(s.ctx, lockers[process], fences[process], s.key)
			if err != nil {
				return err
			}
			read := r.read()
			if _, unlocked := lockers[process].(noLock); unlocked && g == 0 && round == 0 {
				arrived.Done()
				arrived.Wait()
			}
			if err := r.write(fence, read+1); err != nil {
				return err
			}
			h.add(process*goroutines+g, began, addition{read, fence})
			if err := l.Release(s.ctx); err != nil {
				return err
			}
		}
		return nil
	}
	var all sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		all.Go(func() { errs[i] = add(i/goroutines, i%goroutines) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if n := r.read(); n != workers*rounds {
		return fmt.Errorf("number in the resource: got %d after %d additions, want one per addition", n, workers*rounds)
	}
	return h.check()
}

// noLock grants every request.
type noLock struct {
	lease.Locker
	leases *lease.Leases
}

func (n noLock) Acquire(ctx context.Context, key string, _ ...lease.Option) (*lease.Lock, error) {
	return n.leases.TryAcquire(ctx, key, nil, func(c *lease.Call) (*lease.Lock, error) { return c.Hold("", time.Now()) })
}

type nothing struct{}

func (nothing) Renew(context.Context, []*lease.Lock) []error               { return nil }
func (nothing) Release(context.Context, *lease.Lock) (doubt bool, _ error) { return false, nil }

// sameFence always issues the same token.
type sameFence struct{}

func (*sameFence) Raise(context.Context, *lease.Lock) (int64, error) { return 1, nil }

// TryAcquire, Acquire, Remaining and Release return the documented outcomes, also when called
// repeatedly.
func outcomes(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	over, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := a.TryAcquire(over, s.key); !errors.Is(err, context.Canceled) {
		s.Errorf("acquire with an ended context: got error %v, want context.Canceled", err)
	}
	type name struct{}
	var l *lease.Lock
	for _, acquire := range []func(context.Context, string, ...lease.Option) (*lease.Lock, error){a.Acquire, a.TryAcquire} {
		if l != nil {
			check.Must(s, l.Release(s.ctx))
		}
		ctx, cancel := context.WithCancel(context.WithValue(s.ctx, name{}, "buyer"))
		var err error
		l, err = acquire(ctx, s.key)
		check.Must(s, err)
		cancel()
		if l.Context().Err() != nil || l.Context().Value(name{}) != "buyer" {
			s.Error("lock's context: got no values of the caller's context, or its end, want its values but not its end")
		}
	}
	s.tryAgain(a)
	s.wantHeld(b)
	left, err := b.Remaining(s.ctx, s.key, s.key+"free")
	check.Must(s, err)
	if left[0] <= 0 || left[1] != 0 {
		s.Errorf("remaining times of a held and a free lock: got %v, want more than 0, then 0", left)
	}
	for range 3 {
		check.Must(s, l.Release(over)) // Release works with an expired context
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, lease.ErrReleased) || errors.Is(cause, lease.ErrLost) {
		s.Errorf("context after the release: got cause %v, want ErrReleased", cause)
	}
	s.wantFree(b)
}
