package controller

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
)

type testLock struct {
	ctx      context.Context
	released int
}

func (l *testLock) Context() context.Context { return l.ctx }

func (l *testLock) Release(context.Context) error {
	l.released++
	return nil
}

// A node gives up a SKU after exactly one lease without progress. For an idle SKU, the node's
// writes to both stores count as progress. For any other SKU, only its own progress counts. If
// the node still writes to both stores, it leaves the SKU to other nodes for one lease.
func TestStalledSKUIsGivenUp(t *testing.T) {
	const never = 1000 * time.Hour
	for what, want := range map[string]struct {
		running      bool
		redis, beats time.Duration // time for which the node writes to Redis and to the database
		after        time.Duration // time until the SKU is given up
		leaves       bool          // whether the SKU is left to another node for a lease
	}{
		"idle, and both stores work":          {false, never, never, never, false},
		"idle, and Redis is lost":             {false, time.Minute, never, 2 * time.Minute, false},
		"idle, and the database is lost":      {false, never, time.Minute, 2 * time.Minute, false},
		"in a pass without progress":          {true, never, never, time.Minute, true},
		"in a pass, and both stores are lost": {true, 0, 0, time.Minute, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, lock := &assigner{health: &redisHealth{threshold: contraryProbes}}, &testLock{ctx: t.Context()}
				p := newPool(KeeperConfig{Lease: time.Minute}, slog.New(slog.DiscardHandler), &keeper.Counters{}, a.wrote)
				began := time.Now()
				p.slots["S"] = &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{}), sku: "S", lock: lock, running: want.running}
				for len(p.slots) > 0 && time.Since(began) < 10*time.Minute {
					time.Sleep(time.Second)
					if time.Since(began) <= want.beats {
						a.lastBeat.at = time.Now()
					}
					if time.Since(began) <= want.redis {
						a.health.observe([]inventory.Master{{Name: inventory.Standalone}})
					}
					for _, s := range p.stalled() {
						p.release(s)
					}
				}
				gone := 0
				if took := time.Since(began); len(p.slots) == 0 {
					if gone = 1; took != want.after {
						t.Errorf("stalled SKU: got it given up after %v, want %v", took, want.after)
					}
				}
				if leaves := p.backsOff("S"); leaves != want.leaves || lock.released != gone || gone == 0 != (want.after == never) {
					t.Errorf("stalled SKU: got it left to other nodes %v, want %v; got %d locks released, want %d", leaves, want.leaves, lock.released, gone)
				}
			})
		})
	}
}
