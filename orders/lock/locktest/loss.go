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

// A holder's machine crashes. The next caller acquires the lock within a lease, and the first
// holder's context has ended by then.
func crash(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	first := s.acquire(a)
	a.cut()
	second := s.acquire(b)
	if first.Context().Err() == nil && !s.TiedToConnection {
		s.Error("two holders: got the first context still alive, want it ended")
	}
	if cause := s.ended(first); !errors.Is(cause, lease.ErrLost) {
		s.Errorf("context of the crashed holder: got cause %v, want ErrLost", cause)
	}
	check.Must(s, second.Release(s.ctx))
}

// A holder checks its context, and pauses for longer than its lease before it writes. The
// resource rejects the write because of the fence. Without a fence, in the broken twin, the
// write succeeds.
func pause(_ *testing.T, s *suite) {
	r, twin := &resource{}, &resource{unfenced: true}
	a, b := s.process(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	issuer := s.Fence(s, b.Locker)
	first, old, err := fence.Acquire(s.ctx, a, s.Fence(s, a.Locker), s.key)
	check.Must(s, err)
	check.Must(s, first.Context().Err()) // the holder checks its context before the pause
	read := r.read()
	a.cut() // the pause: nothing from this process reaches the servers

	second, newer, err := fence.Acquire(s.ctx, b, issuer, s.key)
	check.Must(s, err)
	if newer <= old {
		s.Errorf("fencing token of the second holder: got %d after %d, want a greater one", newer, old)
	}
	check.Must(s, r.write(newer, 10))
	check.Must(s, twin.write(newer, 10))

	if err := r.write(old, read+1); !errors.Is(err, errFenced) || r.read() != 10 { // after the pause
		s.Errorf("late write: got error %v and value %d, want errFenced and 10", err, r.read())
	}
	if err := twin.write(old, read+1); err != nil || twin.read() == 10 {
		s.Errorf("late write without a fence: got error %v and value %d, want success", err, twin.read())
	}
	check.Must(s, second.Release(s.ctx))
	if cause := s.ended(first); !errors.Is(cause, lease.ErrLost) {
		s.Errorf("context of the paused holder: got cause %v, want ErrLost", cause)
	}
}

// Without a renewal, the context ends before the lease does.
func expiry(_ *testing.T, s *suite) {
	a, b := s.idle(lease.Config{Lease: s.Lease}), s.process(lease.Config{Lease: s.Lease})
	began := time.Now()
	l, err := a.TryAcquire(s.ctx, s.key)
	check.Must(s, err)
	cause := s.ended(l)
	if !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrExpired) {
		s.Errorf("context after the lease: got cause %v, want ErrLost and ErrExpired", cause)
	}
	if held := time.Since(began); held < s.Lease/2 {
		s.Errorf("context of the lock: got its end after %v of a lease of %v, want at least half of it", held, s.Lease)
	}
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) && !errors.Is(err, lease.ErrNotMine) {
		s.Errorf("release: got error %v, want nil, ErrExpired or ErrNotMine", err)
	}
	s.wantFree(b)
}

// A lock is lost after MaxHold, even if it is renewed.
func maxHold(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{MaxHold: 50 * time.Millisecond}), s.process(lease.Config{})
	l := s.acquire(a)
	if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrMaxHold) {
		s.Errorf("context of a lock held too long: got cause %v, want ErrLost and ErrMaxHold", cause)
	}
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) {
		s.Errorf("release: got error %v, want nil or ErrExpired", err)
	}
	s.wantFree(b)
}

// If the lock is stolen at the servers, the holder detects the loss by a renewal.
func stolen(_ *testing.T, s *suite) {
	a := s.process(lease.Config{Lease: s.Lease})
	l := s.acquire(a)
	s.Steal(s, s.key)
	if cause := s.ended(l); !errors.Is(cause, lease.ErrLost) {
		s.Errorf("context of the stolen lock: got cause %v, want ErrLost", cause)
	}
	if err := l.Release(s.ctx); !errors.Is(err, lease.ErrExpired) && !errors.Is(err, lease.ErrNotMine) {
		s.Errorf("release: got error %v, want ErrExpired or ErrNotMine", err)
	}
}

// When Run returns, held locks are lost, and waiting and later calls return ErrStopped.
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
		s.Errorf("context after the client's stop: got cause %v, want ErrLost and ErrStopped", cause)
	}
	check.Is(s, <-waiter, lease.ErrStopped)
	check.Is(s, check.Err(a.TryAcquire(s.ctx, s.key)), lease.ErrStopped)
	if err := a.Run(context.Background()); err == nil {
		s.Error("second Run: got nil, want an error")
	}
	if err := l.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrExpired) {
		s.Errorf("release after Run: got error %v, want nil or ErrExpired", err)
	}
	check.Must(s, theirs.Release(s.ctx))
	s.wantFree(b)
}
