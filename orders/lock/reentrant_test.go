package lock

import (
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
		must(t, err)
		inner, err := ann.TryAcquire(ctx, "lock:{sku}")
		must(t, err)
		is(t, errOf(bob.TryAcquire(ctx, "lock:{sku}")), ErrHeld)
		for range 2 { // idempotent: the second is no second leaving
			ok(t, inner.Release(ctx))
		}
		if n, err := ann.leave.Run(ctx, rdb, []string{"lock:{sku}"}, inner.Token()).Int(); n != -1 {
			t.Errorf("an entry that left twice: %d, %v; want -1", n, err)
		}
		is(t, errOf(bob.TryAcquire(ctx, "lock:{sku}")), ErrHeld)
		ann.leases.renew(ctx, []*Lock{outer})
		if err := outer.Context().Err(); err != nil {
			t.Error("lost by a renewal")
		}
		ok(t, outer.Release(ctx))
		taken, err := bob.Acquire(ctx, "lock:{sku}")
		must(t, err)
		ok(t, taken.Release(ctx))
	})
}

// An entering whose answer is lost, and which go-redis sends again, is one.
func TestReentrantLostReply(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := background(t)
		p := newWire(t, s)
		ann, bob := NewReentrant(p.connect(t), "ann", patient), NewReentrant(s.connect(t), "bob", patient)
		must(t, ann.enter.Load(ctx, s.connect(t)).Err())
		lost := p.LoseAnswers(1, with(ann.enter.Hash()))
		l, err := ann.TryAcquire(ctx, "lock:{sku}")
		if err != nil || lost() != 1 {
			t.Fatalf("%v, %d answers lost", err, lost())
		}
		must(t, l.Release(ctx))
		if _, err := bob.TryAcquire(ctx, "lock:{sku}"); err != nil {
			t.Errorf("bob: %v: counted twice?", err)
		}
	})
}
