package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// memory is a store that counts releases.
type memory struct{ released int }

func (*memory) Renew(_ context.Context, locks []*Lock) []error { return make([]error, len(locks)) }

func (m *memory) Release(context.Context, *Lock) (bool, error) {
	m.released++
	return false, nil
}

// If the caller's context ends before the lock is granted, the lock is released.
func TestLateGrantIsReleased(t *testing.T) {
	m := &memory{}
	ls := NewLeases(m, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	l, err := ls.TryAcquire(ctx, "k", nil, func(c *Call) (*Lock, error) {
		cancel()
		return c.Hold("token", time.Now())
	})
	if l != nil || !errors.Is(err, context.Canceled) || m.released != 1 {
		t.Errorf("late grant: got lock %v, error %v, %d releases, want no lock, context.Canceled, 1 release", l, err, m.released)
	}
}

// A nil Lock behaves like a lost one.
func TestNilLockIsLost(t *testing.T) {
	var none *Lock
	check.Is(t, none.Release(t.Context()), ErrExpired)
	if cause := context.Cause(none.Context()); !errors.Is(cause, ErrLost) {
		t.Errorf("context: got cause %v, want ErrLost", cause)
	}
	if long := none.Lease(); long != 0 {
		t.Errorf("lease: got %v, want 0", long)
	}
	ran := false
	err := none.Do(t.Context(), func(ctx context.Context) error { ran = true; return context.Cause(ctx) })
	if !ran || !errors.Is(err, ErrLost) {
		t.Errorf("Do: got error %v and ran %t, want ErrLost and true", err, ran)
	}
}

// A renewal that was sent earlier and answered later does not move the deadline back.
func TestRenewalsOutOfOrder(t *testing.T) {
	ls := NewLeases(&memory{}, Config{Lease: time.Minute})
	l, err := ls.TryAcquire(t.Context(), "k", nil, func(c *Call) (*Lock, error) { return c.Hold("token", time.Now()) })
	check.Must(t, err)
	now := time.Now()
	l.extend(now)
	l.extend(now.Add(-time.Minute))
	if !l.running() || !l.renewed.Equal(now) {
		t.Errorf("deadline of the lock after the older renewal: got %v, want it unchanged", l.until)
	}
}

// hookedStore calls onRenew before it answers a renewal, and onRelease before it releases a lock.
type hookedStore struct {
	memory
	onRenew   func()
	onRelease func(*Lock)
}

func (s *hookedStore) Release(ctx context.Context, l *Lock) (bool, error) {
	if s.onRelease != nil {
		s.onRelease(l)
	}
	return s.memory.Release(ctx, l)
}

func (s *hookedStore) Renew(_ context.Context, locks []*Lock) []error {
	s.onRenew()
	return make([]error, len(locks))
}

// If the lock is released before the store answers, Extend returns ErrReleased.
func TestExtendAfterReleaseFails(t *testing.T) {
	s := &hookedStore{}
	ls := NewLeases(s, Config{})
	l, err := ls.TryAcquire(t.Context(), "k", nil, func(c *Call) (*Lock, error) { return c.Hold("token", time.Now()) })
	check.Must(t, err)
	s.onRenew = func() { _ = l.Release(t.Context()) }
	if err := l.Extend(t.Context()); !errors.Is(err, ErrReleased) {
		t.Errorf("extend a released lock: got error %v, want ErrReleased", err)
	}
}

// The context of a lock ends before the store can grant the lock to another caller.
func TestContextEndsBeforeRelease(t *testing.T) {
	var cause error
	ls := NewLeases(&hookedStore{onRelease: func(l *Lock) { cause = context.Cause(l.Context()) }}, Config{})
	l, err := ls.TryAcquire(t.Context(), "k", nil, func(c *Call) (*Lock, error) { return c.Hold("token", time.Now()) })
	check.Must(t, err)
	check.OK(t, l.Release(t.Context()))
	check.Is(t, cause, ErrReleased)
}

// If an option removes Config.Retry and the store has no wait queue, the call uses the Retry of
// the client.
func TestCallWithoutRetryUsesClientRetry(t *testing.T) {
	ls := NewLeases(&memory{}, Config{Retry: Every(time.Millisecond)})
	tried := 0
	a := NewAcquirer(ls, func(c *Call) (*Lock, error) {
		return c.Poll(func(c *Call) (*Lock, error) {
			if tried++; tried < 3 {
				return nil, ErrHeld
			}
			return c.Hold("token", time.Now())
		})
	})
	running, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(running) }()
	if _, err := a.Acquire(t.Context(), "k", func(c *Config) { c.Retry = nil }); err != nil {
		t.Errorf("acquire without Retry: got error %v, want none", err)
	}
	stop()
	check.OK(t, <-ran)
}

// hangs is a store that does not answer the first renewal of each lock, nor any renewal of the
// lock never.
type hangs struct {
	memory
	never string

	mu   sync.Mutex
	seen map[string]bool
}

func (h *hangs) Renew(ctx context.Context, locks []*Lock) []error {
	h.mu.Lock()
	hang := false
	for _, l := range locks {
		hang = hang || l.key == h.never || !h.seen[l.key]
		h.seen[l.key] = true
	}
	h.mu.Unlock()
	errs := make([]error, len(locks))
	if hang {
		<-ctx.Done()
		for i := range errs {
			errs[i] = ctx.Err()
		}
	}
	return errs
}

// A short lease survives one renewal without an answer, even if a long lease is being renewed:
// the two do not share a round trip, and so do not share a timeout.
func TestShortLeaseIsRenewedApartFromLong(t *testing.T) { synctest.Test(t, shortLeaseApartFromLong) }

func shortLeaseApartFromLong(t *testing.T) {
	ls := NewLeases(&hangs{never: "long", seen: map[string]bool{}}, Config{Lease: time.Minute})
	running, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- ls.Run(running) }()
	take := func(c *Call) (*Lock, error) { return c.Hold("token", time.Now()) }
	long, err := ls.TryAcquire(t.Context(), "long", nil, take)
	check.Must(t, err)
	long.mu.Lock()
	long.renewed = long.renewed.Add(-30 * time.Second) // make the renewal due
	long.mu.Unlock()
	short, err := ls.TryAcquire(t.Context(), "short", []Option{func(c *Config) { c.Lease = 900 * time.Millisecond }}, take)
	check.Must(t, err)
	select {
	case <-short.Context().Done():
		t.Errorf("short lock: got it lost with cause %v, want it held", context.Cause(short.Context()))
	case <-time.After(2 * time.Second):
	}
	stop()
	check.OK(t, <-ran)
}
