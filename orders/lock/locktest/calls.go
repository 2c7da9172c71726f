package locktest

import (
	"context"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/election"
	"flashsale/orders/lock/lease"
)

// One call may set its own lease, which is renewed at its own pace.
func perCall(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{Lease: 2 * time.Minute}), s.process(lease.Config{Lease: 2 * time.Minute})
	if _, err := a.Acquire(s.ctx, s.key, func(c *lease.Config) { c.Lease = time.Nanosecond }); err == nil {
		s.Error("acquire with a lease of a nanosecond: got no error, want one")
	}
	short := func(c *lease.Config) { c.Lease, c.Drift, c.Timeout = s.Lease, s.Lease/20, s.Lease/2 }
	l, err := a.TryAcquire(s.ctx, s.key, short)
	if s.LeaseOfSession {
		if err == nil {
			s.Error("acquire with a lease that differs from the session's: got no error, want one")
		}
		return
	}
	check.Must(s, err)
	if l.Lease() != s.Lease {
		s.Errorf("lease of the acquired lock: got %v, want %v", l.Lease(), s.Lease)
	}
	select {
	case <-l.Context().Done():
		s.Errorf("renewed lock: got it lost with cause %v, want it held", context.Cause(l.Context()))
	case <-time.After(3 * s.Lease / 2):
	}
	a.kill()
	a.cut()
	s.wantFree(b) // fails if the server keeps the lock for 2 minutes
}

// A Locker must not implement lease.Store, whose methods renew and release a lock without an
// effect on its context.
func noStore(_ *testing.T, s *suite) {
	if _, ok := s.idle(lease.Config{}).Locker.(lease.Store); ok {
		s.Error("Locker: it implements lease.Store, want a Locker that does not")
	}
}

// Extend renews a lock without Run.
func extend(_ *testing.T, s *suite) {
	a, b := s.idle(lease.Config{Lease: s.Lease}), s.idle(lease.Config{Lease: s.Lease})
	l, err := a.TryAcquire(s.ctx, s.key)
	check.Must(s, err)
	half := time.NewTicker(s.Lease / 2)
	defer half.Stop()
	for range 3 {
		<-half.C
		check.Must(s, l.Extend(s.ctx))
	}
	s.wantHeld(b)
	check.Must(s, l.Release(s.ctx))
	check.Is(s, l.Extend(s.ctx), lease.ErrReleased)
}

// Observe reports the holder's note and the time of the acquisition, not the time at which the
// holder began to wait.
func observe(_ *testing.T, s *suite) {
	a, b := s.process(lease.Config{}), s.process(lease.Config{Note: "b waits"})
	o, can := a.Locker.(interface {
		Observe(ctx context.Context, key string) (lease.Holder, error)
	})
	if !can {
		return
	}
	see := func(want lease.Holder) (since time.Time) {
		s.Helper()
		h, err := o.Observe(s.ctx, s.key)
		check.Must(s, err)
		since, h.Since = h.Since, time.Time{}
		if h != want || since.IsZero() != (h.Note == "") {
			s.Errorf("holder of the lock: got %+v since %v, want %+v", h, since, want)
		}
		return since
	}
	see(lease.Holder{})
	l := s.acquire(a)
	see(lease.Holder{Held: true})
	check.Must(s, l.Release(s.ctx))
	l, err := a.Acquire(s.ctx, s.key, func(c *lease.Config) { c.Note = "import 7, a" })
	check.Must(s, err)
	first := see(lease.Holder{Held: true, Note: "import 7, a"})
	got := make(chan *lease.Lock)
	go func() { l, _ := b.Acquire(s.ctx, s.key); got <- l }()
	<-time.After(20 * time.Millisecond) // time for b to begin to wait; the result is the same if b has not begun
	check.Must(s, l.Extend(s.ctx))
	if since := see(lease.Holder{Held: true, Note: "import 7, a"}); since != first {
		s.Errorf("lock held since: got %v after a renewal, want unchanged %v", since, first)
	}
	check.Must(s, l.Release(s.ctx))
	l = <-got
	if since := see(lease.Holder{Held: true, Note: "b waits"}); since.Sub(first) < 20*time.Millisecond {
		s.Errorf("lock of b held since: got %v, want at least 20ms after %v", since, first)
	}
	check.Must(s, l.Release(s.ctx))

	leading, stop := context.WithCancel(s.ctx)
	defer stop()
	check.Must(s, election.Lead(leading, a, s.key, func(context.Context) error {
		h, err := o.Observe(s.ctx, s.key)
		if err != nil || h.Note != "node 1" {
			s.Errorf("observe the leader: got %+v, error %v, want note \"node 1\"", h, err)
		}
		stop()
		return nil
	}, nil, func(c *lease.Config) { c.Note = "node 1" }))
}
