package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest/check"
)

// Install replaces only a gate that this keeper has shut, or a missing gate.
// (twin_test.go has the broken twins.)
func TestInstallReplacesOnlyAShutGate(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb, patient)
		refused := func(t *testing.T, sku string, was int64) {
			t.Helper()
			before := state(t, rdb, sku)
			ok, err := build(t.Context(), g, sku, was, 9, truth{Terms: terms(5, 1), Available: 5})
			if ok || err != nil {
				t.Errorf("install over an open gate: got %v, error %v, want false and nil", ok, err)
			}
			if after := state(t, rdb, sku); after != before {
				t.Errorf("gate after a rejected install: got a change from\n%sto\n%s", before, after)
			}
		}
		t.Run("open", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			refused(t, sku, first)
		})
		t.Run("epoch", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			shut(t, g, sku)
			refused(t, sku, 0) // another rebuild came first
			refused(t, sku, 2)
		})
		t.Run("queued orders are dropped", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			old := order(sku, "old", "ann")
			old.Key, old.Fingerprint = "k", "p"
			reserve(t, g, old)
			shut(t, g, sku)
			install(t, g, sku, first, truth{Terms: terms(5, 1), Available: 5})
			r := Request{OrderID: "new", SKU: sku, Buyer: "ann", Quantity: 1, Key: "k", Fingerprint: "p"}
			if got := reserve(t, g, r); got.OrderID != "new" {
				t.Errorf("order with an earlier key after the rebuild: got %+v, want a new order", got)
			}
			queue, err := g.ReadQueue(t.Context(), sku, "", 10)
			check.Must(t, err)
			if len(queue) != 1 || queue[0].OrderID != "new" || queue[0].Epoch != first+1 {
				t.Errorf("queue after the rebuild: got %+v, want only the new order with epoch %d", queue, first+1)
			}
		})
	})
}

func shut(t *testing.T, g KeeperGate, sku string) {
	t.Helper()
	check.Must(t, g.BeginRebuild(t.Context(), sku, first))
}

// A failover between Stage and Install may lose the draft, or only its last pieces. A
// gate opened without them would keep the units of open orders forever, or sell units
// twice.
func TestInstallRejectsAnIncompleteDraft(t *testing.T) {
	losses := map[string]struct {
		key   int // index of the lost key of the draft; -1 for the last writes
		guard string
	}{
		"holds":  {0, "redis.call('HLEN', KEYS[5]) ~= tonumber(ARGV[3])"},
		"buyers": {1, "redis.call('HLEN', KEYS[6]) ~= tonumber(ARGV[4])"},
		// The draft has the right numbers of holds and buyers, but older ones.
		"the last changes": {-1, "redis.call('SCARD', KEYS[7]) ~= tonumber(ARGV[5])"},
	}
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for what, loss := range losses {
			t.Run(what, func(t *testing.T) {
				if opensWithout(t, rdb, loss.key) {
					t.Error("install of an incomplete draft: the gate opens, want the draft rejected")
				}
			})
			t.Run(what+", twin", func(t *testing.T) {
				installTwin(0, "uncounted", loss.guard, "false").use(t)
				if !opensWithout(t, rdb, loss.key) {
					t.Error("install of an incomplete draft by the twin: got it rejected, so the check proves nothing")
				}
			})
		}
	})
}

// opensWithout stages a rebuild, loses a key of the draft or the last writes (-1), and
// reports whether the gate opens.
func opensWithout(t *testing.T, rdb *redis.Client, lost int) bool {
	hold := func(id, buyer string) Hold {
		return Hold{OrderID: id, Buyer: buyer, Quantity: 1, AcceptedAt: time.Now()}
	}
	g, sku := newGate(rdb, patient), newSKU()
	d := draft(sku)
	check.Must(t, g.Stage(t.Context(), d, Changes{Holds: []Hold{hold("a", "ann")}, Buyers: map[string]int64{"ann": 1, "bob": 0}}))
	for _, key := range d.keys() {
		check.Must(t, rdb.Copy(t.Context(), key, "replica:"+key, 0, true).Err())
	}
	check.Must(t, g.Stage(t.Context(), d, Changes{Holds: []Hold{hold("b", "bob")}, Ended: []string{"a"}, Buyers: map[string]int64{"ann": 0, "bob": 1}}))
	if got := fmt.Sprint(rdb.HKeys(t.Context(), d.keys()[0]).Val(), rdb.HGet(t.Context(), d.keys()[1], "bob").Val()); got != "[b]1" {
		t.Fatalf("draft of the rebuild: got %s staged, want [b]1", got)
	}
	for n, key := range d.keys() {
		if lost < 0 {
			check.Must(t, rdb.Rename(t.Context(), "replica:"+key, key).Err())
		} else if n == lost {
			check.Must(t, rdb.Del(t.Context(), key).Err())
		}
	}
	opened, err := g.Install(t.Context(), d, 0, View{Summary: Summary{Epoch: 1, Terms: terms(3, 1), Available: 2}, Holds: 1, Buyers: 2})
	check.Must(t, err)
	if left := rdb.Exists(t.Context(), d.keys()...).Val(); left != 0 {
		t.Errorf("keys of the rejected draft: got %d left, want none", left)
	}
	return opened
}

// Redis deletes the draft of a rebuild that died. A complete rebuild leaves no draft.
func TestStagedKeysExpire(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		d, all := draft(sku), bigStock(3, 3)
		check.Must(t, g.Stage(t.Context(), d, Changes{Holds: all.Holds, Buyers: all.Buyers}))
		for _, key := range d.keys() {
			if ttl := rdb.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > stagedFor {
				t.Errorf("staged key %s: got expiry in %v, want at most %v", key, ttl, stagedFor)
			}
		}
		install(t, g, sku, 0, all)
		for _, key := range []string{keys.Holds(sku), keys.Buyers(sku)} {
			if ttl := rdb.TTL(t.Context(), key).Val(); ttl != -1 {
				t.Errorf("installed key %s: got expiry in %v, want none", key, ttl)
			}
		}
		check.Must(t, g.Discard(t.Context(), d))
		if left := rdb.Keys(t.Context(), "*{"+sku+"}*staged*").Val(); len(left) > 0 {
			t.Errorf("keys of the installed draft: got %v left, want none", left)
		}
	})
}

// A keeper that was replaced cannot install its draft after the draft of the new keeper.
func TestInstallRejectsTheDraftOfAReplacedKeeper(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		stale, fresh := &Draft{SKU: sku, Fence: 1, Attempt: 1}, &Draft{SKU: sku, Fence: 2, Attempt: 1}
		check.Must(t, g.Stage(t.Context(), fresh, Changes{Buyers: map[string]int64{"ann": 1}}))
		check.Must(t, g.Stage(t.Context(), stale, Changes{Buyers: map[string]int64{"ann": 5}}))
		stock := View{Summary: Summary{Epoch: 2, Terms: terms(3, 1), Available: 2}, Buyers: 1}
		if ok, err := g.Install(t.Context(), fresh, 0, stock); !ok || err != nil {
			t.Fatalf("install of the new keeper's draft: got %v, error %v, want true", ok, err)
		}
		check.Must(t, g.BeginRebuild(t.Context(), sku, 2))
		if ok, err := g.Install(t.Context(), stale, 0, stock); ok || err != nil {
			t.Errorf("install of the replaced keeper's draft: got %v, error %v, want false and nil", ok, err)
		}
		if n := rdb.HGet(t.Context(), keys.Buyers(sku), "ann").Val(); n != "1" {
			t.Errorf("units of ann: got %s, want 1 as the new keeper staged", n)
		}
	})
}

func bigStock(holds, buyers int) truth {
	s := truth{Terms: terms(int64(holds), 2), Buyers: map[string]int64{}}
	for i := range holds {
		s.Holds = append(s.Holds, Hold{
			OrderID: fmt.Sprint("order-", i), Buyer: fmt.Sprint("buyer-", i%buyers), Quantity: 1, AcceptedAt: time.Now(),
		})
	}
	for i := range buyers {
		s.Buyers[fmt.Sprint("buyer-", i)] = int64(holds / buyers)
	}
	return s
}

// The calls have the largest sizes that the documentation allows.
func TestLargestCalls(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const calls, ids = 256, 500
		sizes := []int{}
		g, sku := newGate(rdb, Config{OnBatch: func(b Batch) { sizes = append(sizes, b.Requests) }}), newSKU()
		open(t, g, sku, 10_000, 10_000)
		for from := 0; from < 2*ids; from += calls {
			batch := make([]*call, calls)
			for i := range batch {
				r := order(sku, fmt.Sprintf("0192f8a0-7c1e-7000-8000-%012d", from+i), fmt.Sprint("buyer-", i))
				r.Key, r.Fingerprint = fmt.Sprint("key-", from+i), "p"
				batch[i] = &call{Q: r}
			}
			g.state(sku).reserveBatch(t.Context(), batch)
			for _, c := range batch {
				check.Must(t, c.Err)
			}
		}
		var all []string
		for after := ""; ; {
			queue, err := g.ReadQueue(t.Context(), sku, after, ids)
			check.Must(t, err)
			if len(queue) == 0 {
				break
			}
			var back []string
			for _, q := range queue {
				if len(all)%100 == 0 {
					back = append(back, q.OrderID)
				}
				all = append(all, q.OrderID)
			}
			check.Must(t, check.Err(g.Ack(t.Context(), sku, queue, back)))
			after = queue[len(queue)-1].Entry
		}
		if units, err := g.ReleaseHolds(t.Context(), sku, first, all[:ids]); err != nil || units != ids-5 {
			t.Errorf("release of the largest call: got %d units, error %v, want %d", units, err, ids-5)
		}
		check.Must(t, g.DropHolds(t.Context(), sku, first, all[ids:2*ids]))
		if view := inspect(t, g, sku); view.Holds != 23 || len(view.Orders) != 0 || view.Available != 10_000-4*calls+11+495 {
			t.Errorf("gate after the largest calls: got %d holds, %d queued, %d available, want 23, 0 and %d",
				view.Holds, len(view.Orders), view.Available, 10_000-4*calls+11+495)
		}
		for _, n := range sizes {
			if n != calls {
				t.Errorf("largest call: got %d requests, want %d", n, calls)
			}
		}
	})
}
