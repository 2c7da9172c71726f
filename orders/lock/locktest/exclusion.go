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

const rounds = 5 // of each goroutine

// Several processes add to a number, one read and one write each, under the lock
// and its fence. The same without the lock is caught by the same check.
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
	// The twins: no lock at all, and a fence that always says the same.
	for i := range lockers {
		lockers[i], fences[i] = noLock{lockers[i], lease.NewLeases(nothing{}, lease.Config{})}, fence.Issuer(&sameFence{})
	}
	if err := s.additions(lockers, fences, goroutines); err == nil {
		t.Error("the check did not notice that there was no lock")
	}
}

func (s *suite) additions(lockers []lease.Locker, fences []fence.Issuer, goroutines int) error {
	workers := len(lockers) * goroutines
	h, r := &history{}, &resource{}
	// The first reads of all processes come before their first writes, unless
	// the lock keeps them apart.
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
		return fmt.Errorf("%d additions made %d", workers*rounds, n)
	}
	return h.check()
}

// noLock gives everybody a lock.
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

// sameFence issues the same token again and again.
type sameFence struct{}

func (*sameFence) Raise(context.Context, *lease.Lock) (int64, error) { return 1, nil }

// Held, not held, released: as often as one asks.
func outcomes(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	over, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := a.TryAcquire(over, s.key); !errors.Is(err, context.Canceled) {
		s.Errorf("acquire with a context that has ended: %v", err)
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
			s.Error("the lock's context is to have the values of the caller's, not its end")
		}
	}
	s.again(a)
	s.taken(b)
	left, err := b.Remaining(s.ctx, s.key, s.key+"free")
	check.Must(s, err)
	if left[0] <= 0 || left[1] != 0 {
		s.Errorf("remaining %v, want some and none", left)
	}
	for range 3 {
		check.Must(s, l.Release(over)) // Release works with an expired context
	}
	if cause := context.Cause(l.Context()); !errors.Is(cause, lease.ErrReleased) || errors.Is(cause, lease.ErrLost) {
		s.Errorf("cause %v, want ErrReleased", cause)
	}
	s.free(b)
}
