package reentrant

import (
	"bytes"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// owner returns a Client with timeouts long enough for a busy machine.
func owner(t *testing.T, url, name string) (*Client, *redis.Client) {
	rdb := servertest.Connect(t, url)
	return New(rdb, name, lease.Config{Lease: time.Hour, Timeout: time.Minute}), rdb
}

// An owner acquires a lock twice. Another owner can acquire it only after both releases.
func TestLockIsFreeAfterLastRelease(t *testing.T) {
	servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) {
		ctx := t.Context()
		ann, rdb := owner(t, r.URL, "ann")
		bob, _ := owner(t, r.URL, "bob")
		outer, err := ann.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		inner, err := ann.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		refused := func() {
			t.Helper()
			check.Is(t, check.Err(bob.TryAcquire(ctx, "lock:{sku}")), lease.ErrHeld)
		}
		refused()
		for range 2 { // the second call must not release the outer lock
			check.Must(t, inner.Release(ctx))
		}
		if n, err := ann.store.Scripts.Release.Run(ctx, rdb, []string{"lock:{sku}"}, inner.Token()).Int(); n != -1 {
			t.Errorf("second release of an entry: got %d, error %v, want -1", n, err)
		}
		refused()
		ann.leases.Renew(ctx, time.Now().Add(time.Hour))
		if err := outer.Context().Err(); err != nil {
			t.Errorf("outer lock after a renewal: got it lost with error %v, want it held", err)
		}
		check.Must(t, outer.Release(ctx))
		taken, err := bob.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		check.Must(t, taken.Release(ctx))
	})
}

// An inner lock with a shorter lease does not shorten the lease of the outer lock.
func TestInnerLeaseKeepsOuterLease(t *testing.T) {
	servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) {
		ctx := t.Context()
		ann, _ := owner(t, r.URL, "ann")
		outer, err := ann.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		inner, err := ann.TryAcquire(ctx, "lock:{sku}", func(c *lease.Config) { c.Lease = 30 * time.Minute })
		check.Must(t, err)
		check.Must(t, inner.Extend(ctx))
		check.Must(t, inner.Release(ctx))
		if left, err := ann.Remaining(ctx, "lock:{sku}"); err != nil || left[0] < 40*time.Minute {
			t.Errorf("remaining time of the outer lock: got %v, error %v, want about an hour", left, err)
		}
		check.Must(t, outer.Release(ctx))
	})
}

// If an answer is lost and go-redis repeats the request, the lock has one entry.
func TestRepeatedRequestAddsOneEntry(t *testing.T) {
	servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) {
		ctx := t.Context()
		w := servertest.OpenWire(t, r.URL)
		ann, _ := owner(t, w.Addr(), "ann")
		bob, rdb := owner(t, r.URL, "bob")
		check.Must(t, ann.store.Scripts.Acquire.Load(ctx, rdb).Err())
		entering := []byte(ann.store.Scripts.Acquire.Hash())
		lost := w.LoseAnswers(1, func(sent []byte) bool { return bytes.Contains(sent, entering) })
		l, err := ann.TryAcquire(ctx, "lock:{sku}")
		if err != nil || lost() != 1 {
			t.Fatalf("acquire with lost answers: got error %v and %d lost answers, want none and 1", err, lost())
		}
		check.Must(t, l.Release(ctx))
		if _, err := bob.TryAcquire(ctx, "lock:{sku}"); err != nil {
			t.Errorf("bob after ann's release: got error %v, want the lock; the request may count twice", err)
		}
	})
}
