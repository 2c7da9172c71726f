package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
)

// A holder's machine is gone: the next one has the lock within a lease, and the
// first one's context has ended by then.
func crash(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	first := s.acquire(a)
	a.cut()
	second := s.acquire(b)
	if first.Context().Err() == nil && !s.TiedToConnection {
		s.Error("two holders: the first one's context is alive")
	}
	if cause := s.ended(first); !errors.Is(cause, lease.ErrLost) {
		s.Errorf("cause %v, want ErrLost", cause)
	}
	check.Must(s, second.Release(s.ctx))
}

// A holder looks at its context, and is stopped for longer than its lease before
// it writes. No lock can help; the fence at the resource does. Without one, the
// twin, the write lands.
func pause(_ *testing.T, s *suite) {
	r, twin := &resource{}, &resource{unfenced: true}
	a, b := s.process(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	issuer := s.Fence(s, b.Locker)
	first, old, err := fence.Acquire(s.ctx, a, s.Fence(s, a.Locker), s.key)
	check.Must(s, err)
	check.Must(s, first.Context().Err()) // the holder checks its context before the pause
	read := r.read()
	a.cut() // it stops: nothing of it reaches the servers

	second, newer, err := fence.Acquire(s.ctx, b, issuer, s.key)
	check.Must(s, err)
	if newer <= old {
		s.Errorf("token %d after %d", newer, old)
	}
	check.Must(s, r.write(newer, 10))
	check.Must(s, twin.write(newer, 10))

	if err := r.write(old, read+1); !errors.Is(err, errFenced) || r.read() != 10 { // it goes on
		s.Errorf("late write: %v, value %d", err, r.read())
	}
	if err := twin.write(old, read+1); err != nil || twin.read() == 10 {
		s.Error("the resource without a fence was not harmed: this shows nothing")
	}
	check.Must(s, second.Release(s.ctx))
	if cause := s.ended(first); !errors.Is(cause, lease.ErrLost) {
		s.Errorf("cause %v, want ErrLost", cause)
	}
}

// Nobody renews: the context ends by itself, with the lease.
func expiry(_ *testing.T, s *suite) {
	a, b := s.idle(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	began := time.Now()
	l, err := a.TryAcquire(s.ctx, s.key)
	check.Must(s, err)
	cause := s.ended(l)
	if !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrExpired) {
		s.Errorf("cause %v, want ErrLost and ErrExpired", cause)
	}
	if held := time.Since(began); held < s.Lease/2 {
		s.Errorf("over after %v of %v", held, s.Lease)
	}
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) && !errors.Is(err, lease.ErrNotMine) {
		s.Errorf("release: %v", err)
	}
	s.free(b)
}

// However well it renews, MaxHold is the end.
func maxHold(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{MaxHold: 50 * time.Millisecond}), s.process(lease.Config{})
	l := s.acquire(a)
	if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrMaxHold) {
		s.Errorf("cause %v, want ErrLost and ErrMaxHold", cause)
	}
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) {
		s.Errorf("release: %v", err)
	}
	s.free(b)
}

// Somebody takes the lock by force: its holder learns of it from a renewal.
func stolen(_ *testing.T, s *suite) {
	a := s.process(lease.Config{Lease: s.Lease})
	l := s.acquire(a)
	s.Steal(s, s.key)
	if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) {
		s.Errorf("cause %v, want ErrLost", cause)
	}
	if err := l.Release(s.ctx); !errors.Is(err, lease.ErrExpired) && !errors.Is(err, lease.ErrNotMine) {
		s.Errorf("release: %v, want ErrExpired or ErrNotMine", err)
	}
}

// The end of Run loses what is held, ends what waits and lets nothing more in.
func stop(_ *testing.T, s *suite) {
	waits := make(chan struct{}, 1)
	a := s.process(lease.Config{Hooks: lease.Hooks{Waiting: func(context.Context, string) { waits <- struct{}{} }}})
	b, other := s.process(lease.Config{}), s.key+"other"
	l := s.acquire(a)
	theirs, err := b.Acquire(s.ctx, other)
	check.Must(s, err)
	waiter := make(chan error, 1)
	go func() { _, err := a.Acquire(s.ctx, other); waiter <- err }()
	<-waits
	a.kill()
	if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrStopped) {
		s.Errorf("cause %v, want ErrLost and ErrStopped", cause)
	}
	check.Is(s, <-waiter, lease.ErrStopped)
	check.Is(s, check.Err(a.TryAcquire(s.ctx, s.key)), lease.ErrStopped)
	if err := a.Run(context.Background()); err == nil {
		s.Error("a second Run was let in")
	}
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) {
		s.Errorf("release after stop: %v", err)
	}
	check.Must(s, theirs.Release(s.ctx))
	s.free(b)
}
