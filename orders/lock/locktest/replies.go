package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// The server has done it and the answer is lost: held or unknown, never "held by
// someone else"; and nothing is left of it.
func lostReplyOnAcquire(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	s.warm(a)
	losses := a.lose(s.Acquires)
	l, err := a.TryAcquire(s.ctx, s.key)
	if losses() == 0 {
		s.Fatal("no answer was lost")
	}
	switch {
	case err == nil:
		s.taken(b)
		check.Must(s, l.Release(s.ctx))
	case !errors.Is(err, lease.ErrUnknown):
		s.Errorf("acquire: %v, want a lock or ErrUnknown", err)
	}
	s.free(b)
}

// The answer to a renewal is lost: while the holder's context lives nobody else
// has the lock.
func lostReplyOnRenew(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	l, acquired := s.acquire(a), time.Now()
	losses := a.lose(s.Renews)
	check.Eventually(s, "a renewal's answer is lost", func() bool { return losses() > 0 })
	if s.TiedToConnection {
		if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) {
			s.Errorf("cause %v, want ErrLost", cause)
		}
	} else {
		second, err := b.TryAcquire(s.ctx, s.key)
		alive, over := l.Context().Err() == nil, time.Since(acquired) > s.Lease/2 // on a busy machine
		switch {
		case err == nil && alive:
			s.Error("two holders")
		case !over && (!alive || !errors.Is(err, lease.ErrHeld)):
			s.Errorf("lost by a lost answer: %v; second holder: %v", context.Cause(l.Context()), err)
		}
		if err == nil {
			check.Must(s, second.Release(s.ctx))
		}
		if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrUnknown) && !over {
			s.Errorf("release: %v, want nil or ErrUnknown", err)
		}
	}
	s.free(b)
}

// The answer to a release is lost: it has done its work, and says so or that it
// does not know.
func lostReplyOnRelease(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{})
	s.warm(a)
	l := s.acquire(a)
	losses := a.lose(s.Releases)
	err := l.Release(s.ctx)
	if losses() == 0 {
		s.Fatal("no answer was lost")
	}
	if err != nil && !errors.Is(err, lease.ErrUnknown) {
		s.Errorf("release: %v, want nil or ErrUnknown", err)
	}
	s.free(b)
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) {
		s.Errorf("release once more: %v", err)
	}
}

// warm has the servers know what they need to, so that what is lost is lost of
// the request itself.
func (s *suite) warm(p *process) {
	s.Helper()
	for range 2 {
		l, err := p.TryAcquire(s.ctx, s.key+"warm")
		check.Must(s, err)
		check.Must(s, l.Release(s.ctx))
	}
}
