package lock

import (
	"errors"
	"testing"
)

// patient is for a busy machine.
var patient = Config{Lease: soon, Timeout: soon * 2 / 3}

// An owner enters twice and leaves twice; the key is others' after the second.
func TestReentrant(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx, rdb := background(t), s.connect(t)
		ann, bob := NewReentrant(rdb, "ann", patient), NewReentrant(rdb, "bob", patient)
		outer, err := ann.TryAcquire(ctx, "lock:{sku}")
		if err != nil {
			t.Fatal(err)
		}
		inner, err := ann.TryAcquire(ctx, "lock:{sku}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bob.TryAcquire(ctx, "lock:{sku}"); !errors.Is(err, ErrHeld) {
			t.Errorf("bob: %v, want ErrHeld", err)
		}
		for range 2 { // idempotent: the second is no second leaving
			if err := inner.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		if n, err := ann.leave.Run(ctx, rdb, []string{"lock:{sku}"}, inner.Token()).Int(); n != -1 {
			t.Errorf("an entry that left twice: %d, %v; want -1", n, err)
		}
		if _, err := bob.TryAcquire(ctx, "lock:{sku}"); !errors.Is(err, ErrHeld) {
			t.Errorf("bob: %v, want ErrHeld while ann is in once", err)
		}
		ann.leases.renew(ctx, []*Lock{outer})
		if err := outer.Context().Err(); err != nil {
			t.Error("lost by a renewal")
		}
		if err := outer.Release(ctx); err != nil {
			t.Error(err)
		}
		taken, err := bob.Acquire(ctx, "lock:{sku}")
		if err != nil {
			t.Fatal(err)
		}
		if err := taken.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// An entering whose answer is lost, and which go-redis sends again, is one.
func TestReentrantLostReply(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := background(t)
		p := newProxy(t, s)
		ann, bob := NewReentrant(p.connect(t), "ann", patient), NewReentrant(s.connect(t), "bob", patient)
		if err := ann.enter.Load(ctx, s.connect(t)).Err(); err != nil {
			t.Fatal(err)
		}
		p.lose(ann.enter.Hash(), 1, false)
		l, err := ann.TryAcquire(ctx, "lock:{sku}")
		if err != nil || p.Losses() != 1 {
			t.Fatalf("%v, %d answers lost", err, p.Losses())
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.TryAcquire(ctx, "lock:{sku}"); err != nil {
			t.Errorf("bob: %v: counted twice?", err)
		}
	})
}
