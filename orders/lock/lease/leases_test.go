package lease

import (
	"context"
	"errors"
	"testing"
	"time"
)

// memory is a store that counts what it is given back.
type memory struct{ released int }

func (*memory) Renew(_ context.Context, locks []*Lock) []error { return make([]error, len(locks)) }

func (m *memory) Release(context.Context, *Lock) (bool, error) {
	m.released++
	return false, nil
}

// A lock that comes once nobody waits for it any more is given back.
func TestTooLateForItsCaller(t *testing.T) {
	m := &memory{}
	ls := NewLeases(m, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	l, err := ls.TryAcquire(ctx, "k", func(began time.Time) (*Lock, error) {
		cancel()
		return ls.Hold(ctx, "k", "token", began, began)
	})
	if l != nil || !errors.Is(err, context.Canceled) || m.released != 1 {
		t.Errorf("%v, %v, given back %d times", l, err, m.released)
	}
}

// Who ends up without a lock may still say that it is done with it.
func TestNoLock(t *testing.T) {
	var none *Lock
	if err := none.Release(t.Context()); !errors.Is(err, ErrExpired) {
		t.Errorf("release: %v", err)
	}
	if cause := context.Cause(none.Context()); !errors.Is(cause, ErrLost) {
		t.Errorf("context: %v", cause)
	}
	ran := false
	err := none.Do(t.Context(), func(ctx context.Context) error { ran = true; return context.Cause(ctx) })
	if !ran || !errors.Is(err, ErrLost) {
		t.Errorf("work: %v", err)
	}
}
