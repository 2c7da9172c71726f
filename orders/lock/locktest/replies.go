package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// The answer to an acquire is lost. TryAcquire returns the lock or ErrUnknown but never
// ErrHeld, and leaves no lock behind.
func lostReplyOnAcquire(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	s.warm(a)
	losses := a.lose(s.Acquires)
	l, err := a.TryAcquire(s.ctx, s.key)
	if losses() == 0 {
		s.Fatal("answers of the server: got none lost, want one")
	}
	switch {
	case err == nil:
		s.wantHeld(b)
		check.Must(s, l.Release(s.ctx))
	case !errors.Is(err, lease.ErrUnknown):
		s.Errorf("acquire: got error %v, want a lock or ErrUnknown", err)
	}
	s.wantFree(b)
}

// The answer to a renewal is lost. Until the holder's context ends, no other process can
// acquire the lock.
func lostReplyOnRenew(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	l, acquired := s.acquire(a), time.Now()
	losses := a.lose(s.Renews)
	check.Eventually(s, "a renewal's answer is lost", func() bool { return losses() > 0 })
	if s.TiedToConnection {
		if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) {
			s.Errorf("context of the lock: got cause %v, want ErrLost", cause)
		}
	} else {
		second, err := b.TryAcquire(s.ctx, s.key)
		alive, over := l.Context().Err() == nil, time.Since(acquired) > s.Lease/2 // over may be true on a busy machine
		switch {
		case err == nil && alive:
			s.Error("lock after a lost renewal: got two holders, want one")
		case !over && (!alive || !errors.Is(err, lease.ErrHeld)):
			s.Errorf("after a lost answer: got cause %v and second acquire error %v, want none and ErrHeld", context.Cause(l.Context()), err)
		}
		if err == nil {
			check.Must(s, second.Release(s.ctx))
		}
		if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrUnknown) && !over {
			s.Errorf("release: got error %v, want nil or ErrUnknown", err)
		}
	}
	s.wantFree(b)
}

// The answer to a release is lost. The lock is free, and Release returns nil or ErrUnknown.
func lostReplyOnRelease(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	s.warm(a)
	l := s.acquire(a)
	losses := a.lose(s.Releases)
	err := l.Release(s.ctx)
	if losses() == 0 {
		s.Fatal("answers of the server: got none lost, want one")
	}
	if err != nil && !errors.Is(err, lease.ErrUnknown) {
		s.Errorf("release: got error %v, want nil or ErrUnknown", err)
	}
	s.wantFree(b)
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) {
		s.Errorf("second release: got error %v, want nil or ErrExpired", err)
	}
}

// warm loads scripts and folders into the servers, so that the next request succeeds at its
// first attempt.
func (s *suite) warm(p *process) {
	s.Helper()
	for range 2 {
		l, err := p.TryAcquire(s.ctx, s.key+"warm")
		check.Must(s, err)
		check.Must(s, l.Release(s.ctx))
	}
}
