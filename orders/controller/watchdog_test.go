package controller

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// released is a lease.Store that counts the locks that are released.
type released struct{ n int }

func (*released) Renew(_ context.Context, locks []*lease.Lock) []error {
	return make([]error, len(locks))
}

func (r *released) Release(context.Context, *lease.Lock) (bool, error) {
	r.n++
	return false, nil
}

// A node gives up a SKU after one lease without progress, and not earlier. For a SKU with
// nothing to do, the node's writes to both stores count as progress. For any other SKU,
// only its own progress counts. If the node still writes to both stores, it does not take
// the SKU again for one lease, so that another node can.
func TestWatchdog(t *testing.T) {
	const never = 1000 * time.Hour
	for what, want := range map[string]struct {
		running      bool
		redis, beats time.Duration // how long the node writes to Redis and to the database
		after        time.Duration // time until the SKU is given up
		leaves       bool          // whether the SKU is left to another node for a lease
	}{
		"at rest, and all is well":         {false, never, never, never, false},
		"at rest, and Redis is lost":       {false, time.Minute, never, 2 * time.Minute, false},
		"at rest, the database is lost":    {false, never, time.Minute, 2 * time.Minute, false},
		"under way, and makes no progress": {true, never, never, time.Minute, true},
		"under way, and both are lost":     {true, 0, 0, time.Minute, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, err := store.Open("sqlite:"+t.TempDir()+"/db", store.Config{})
				check.Must(t, err)
				defer func() { _ = st.Close() }()
				locks := &released{}
				ls := lease.NewLeases(locks, lease.Config{Lease: never})
				held, err := ls.TryAcquire(t.Context(), "lock:{S}", nil, func(c *lease.Call) (*lease.Lock, error) { return c.Hold("token", time.Now()) })
				check.Must(t, err)
				health := &redisHealth{}
				c := &Controller{
					store: st, redis: health, bus: &bus{health: health}, cfg: KeeperConfig{Lease: time.Minute, Workers: 1}, log: slog.New(slog.DiscardHandler),
					slots: map[string]*slot{}, backoffUntil: map[string]time.Time{},
				}
				began := time.Now()
				c.slots["S"] = &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{}), sku: "S", held: held, began: began, running: want.running}
				for len(c.slots) > 0 && time.Since(began) < 10*time.Minute {
					time.Sleep(time.Second)
					now, last := time.Now(), health.all["redis"].wrote
					if time.Since(began) <= want.beats {
						c.beaten.Store(&now)
					}
					if time.Since(began) <= want.redis {
						last = now
					}
					health.all = map[string]master{"redis": {wrote: last, down: true}} // no hint is sent
					check.Must(t, c.watchdog(t.Context()))
					c.letting.Wait()
				}
				gone := 0
				if took := time.Since(began); len(c.slots) == 0 {
					if gone = 1; took != want.after {
						t.Errorf("given up after %v, want %v", took, want.after)
					}
				}
				if leaves := !c.backoffUntil["S"].IsZero(); leaves != want.leaves || locks.n != gone || gone == 0 != (want.after == never) {
					t.Errorf("left to another node: %v, want %v; %d locks released", leaves, want.leaves, locks.n)
				}
			})
		})
	}
}
