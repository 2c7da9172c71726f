package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// Opening a gate is refused unless it is certain to be the latest word.
// (The fence, and each of these by its broken twin: twin_test.go.)
func TestInstallOnlyTheLatestWord(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := New(rdb, Config{})
		next := Mandate{Fence: 1, Epoch: 2}
		refused := func(t *testing.T, sku string, m Mandate) {
			t.Helper()
			before := state(t, rdb, sku)
			ok, err := build(t.Context(), g, sku, m, truth{Terms: terms(5, 1), Available: 5})
			if ok || err != nil && !errors.Is(err, ErrFenced) {
				t.Errorf("installed: %v, %v", ok, err)
			}
			if after := state(t, rdb, sku); after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
		}
		t.Run("open", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			refused(t, sku, next)
		})
		t.Run("epoch", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			shut(t, g, sku)
			refused(t, sku, first)
		})
		t.Run("queue", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			reserve(t, g, order(sku, "o", "ann"))
			shut(t, g, sku)
			refused(t, sku, next)
		})
		t.Run("fence", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			shut(t, g, sku)
			check(t, g.Claim(t.Context(), sku, 2))
			refused(t, sku, next)
		})
		t.Run("none of them", func(t *testing.T) {
			sku := newSKU()
			open(t, g, sku, 3, 1)
			shut(t, g, sku)
			install(t, g, sku, next, truth{Terms: terms(5, 1), Available: 5})
		})
	})
}

func shut(t *testing.T, g *Gate, sku string) {
	t.Helper()
	check(t, g.Shut(t.Context(), sku, first))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A Redis that fails over between staging and installing may have lost what was
// staged, or only the latest of it. Opening with the rest would strand the units
// of open orders, or sell those of others again.
func TestInstallNothingThatWasLost(t *testing.T) {
	hold := func(id, buyer string) Hold { return Hold{OrderID: id, Buyer: buyer, Quantity: 1, At: time.Now()} }
	losses := map[string]struct {
		key   int // of the draft, which is lost
		after int // writes
		guard string
	}{
		"holds":  {0, 0, "redis.call('HLEN', KEYS[5]) ~= tonumber(ARGV[3])"},
		"buyers": {1, 0, "redis.call('HLEN', KEYS[6]) ~= tonumber(ARGV[4])"},
		// As many holds and buyers as there should be, and not those.
		"the last changes": {-1, 1, "redis.call('SCARD', KEYS[7]) ~= tonumber(ARGV[5])"},
	}
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for what, loss := range losses {
			lose := func(t *testing.T) (opened bool) {
				g, sku := New(rdb, Config{}), newSKU()
				d := draft(sku, 1)
				for writes, some := range []Changes{
					{Holds: []Hold{hold("a", "ann")}, Buyers: map[string]int64{"ann": 1, "bob": 0}},
					{Holds: []Hold{hold("b", "bob")}, Ended: []string{"a"}, Buyers: map[string]int64{"ann": 0, "bob": 1}},
				} {
					if writes == loss.after && loss.key < 0 {
						for _, key := range d.keys() {
							check(t, rdb.Copy(t.Context(), key, "replica:"+key, 0, true).Err())
						}
					}
					check(t, g.Stage(t.Context(), d, some))
				}
				if got := fmt.Sprint(rdb.HKeys(t.Context(), d.keys()[0]).Val(), rdb.HGet(t.Context(), d.keys()[1], "bob").Val()); got != "[b]1" {
					t.Fatalf("staged: %s", got)
				}
				for n, key := range d.keys() {
					if loss.key < 0 {
						check(t, rdb.Rename(t.Context(), "replica:"+key, key).Err())
					} else if n == loss.key {
						check(t, rdb.Del(t.Context(), key).Err())
					}
				}
				opened, err := g.Install(t.Context(), d, 1, Stock{Terms: terms(3, 1), Available: 2, Holds: 1, Buyers: 2})
				check(t, err)
				if left := rdb.Exists(t.Context(), d.keys()...).Val(); left != 0 {
					t.Errorf("%d keys of the draft are left", left)
				}
				return opened
			}
			t.Run(what, func(t *testing.T) {
				if lose(t) {
					t.Error("opened without them")
				}
			})
			t.Run(what+", twin", func(t *testing.T) {
				installTwin("uncounted", loss.guard, "false").use(t)
				if !lose(t) {
					t.Error("the check can't fail")
				}
			})
		}
	})
}

// A rebuild that dies half-way leaves nothing for good, and one that ends
// nothing at all.
func TestStagedKeysExpire(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := New(rdb, Config{}), newSKU()
		d, all := draft(sku, 1), bigStock(3, 3)
		check(t, g.Stage(t.Context(), d, Changes{Holds: all.Holds, Buyers: all.Buyers}))
		for _, key := range d.keys() {
			if ttl := rdb.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > stagedFor {
				t.Errorf("%s lives for %v", key, ttl)
			}
		}
		install(t, g, sku, first, all)
		for _, key := range []string{keys.Holds(sku), keys.Buyers(sku)} {
			if ttl := rdb.TTL(t.Context(), key).Val(); ttl != -1 {
				t.Errorf("%s, installed, lives for %v", key, ttl)
			}
		}
		check(t, g.Discard(t.Context(), d))
		if left := rdb.Keys(t.Context(), "*{"+sku+"}*staged*").Val(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// Two keepers, the second of which has taken over from the first: neither
// installs what the other has staged, whoever comes first.
func TestInstallOnlyOnesOwnDraft(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := New(rdb, Config{}), newSKU()
		stale, fresh := &Draft{SKU: sku, Fence: 1, Attempt: 1}, &Draft{SKU: sku, Fence: 2, Attempt: 1}
		check(t, g.Stage(t.Context(), fresh, Changes{Buyers: map[string]int64{"ann": 1}}))
		check(t, g.Stage(t.Context(), stale, Changes{Buyers: map[string]int64{"ann": 5}}))
		stock := Stock{Terms: terms(3, 1), Available: 2, Buyers: 1}
		check(t, g.Claim(t.Context(), sku, fresh.Fence))
		if ok, err := g.Install(t.Context(), stale, 9, stock); ok || !errors.Is(err, ErrFenced) {
			t.Errorf("the stale keeper installs: %v, %v", ok, err)
		}
		if ok, err := g.Install(t.Context(), fresh, 2, stock); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if n := rdb.HGet(t.Context(), keys.Buyers(sku), "ann").Val(); n != "1" {
			t.Errorf("installed what another one has staged: ann has %s", n)
		}
	})
}

func bigStock(holds, buyers int) truth {
	s := truth{Terms: terms(int64(holds), 2), Buyers: map[string]int64{}}
	for i := range holds {
		s.Holds = append(s.Holds, Hold{
			OrderID: fmt.Sprint("order-", i), Buyer: fmt.Sprint("buyer-", i%buyers), Quantity: 1, At: time.Now(),
			Key: "k", Fingerprint: "p",
		})
	}
	for i := range buyers {
		s.Buyers[fmt.Sprint("buyer-", i)] = int64(holds / buyers)
	}
	return s
}

// Far more than one script could hand to one command.
func TestInstallManyHolds(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const n = 20_000
		g, sku := New(rdb, Config{}), newSKU()
		install(t, g, sku, first, bigStock(n, n))
		if view := look(t, g, sku); view.Holds != n || !view.Open {
			t.Errorf("%+v", view.Holds)
		}
		if got := rdb.HLen(t.Context(), keys.Buyers(sku)).Val(); got != n {
			t.Errorf("%d buyers", got)
		}
		// The key came along: a replay finds its order.
		r := Request{OrderID: "new", SKU: sku, Buyer: "buyer-19999", Quantity: 1, Key: "k", Fingerprint: "p"}
		if got := reserve(t, g, r); !got.Replayed || got.OrderID != "order-19999" {
			t.Errorf("%+v", got)
		}
	})
}

// The largest calls that the documentation allows.
func TestLargestCalls(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const calls, ids = 256, 500
		sizes := []int{}
		g, sku := New(rdb, Config{OnBatch: func(b Batch) { sizes = append(sizes, b.Requests) }}), newSKU()
		open(t, g, sku, 10_000, 10_000)
		for from := 0; from < 2*ids; from += calls {
			batch := make([]*call, calls)
			for i := range batch {
				r := order(sku, fmt.Sprintf("0192f8a0-7c1e-7000-8000-%012d", from+i), fmt.Sprint("buyer-", i))
				r.Key, r.Fingerprint = fmt.Sprint("key-", from+i), "p"
				batch[i] = &call{request: r, done: make(chan struct{})}
			}
			g.turnstile(sku).reserveBatch(batch)
			for _, c := range batch {
				check(t, c.err)
			}
		}
		var all []string
		for after := ""; ; {
			queue, err := g.Queue(t.Context(), sku, after, ids)
			check(t, err)
			if len(queue) == 0 {
				break
			}
			var settled []Settled
			for _, q := range queue {
				settled = append(settled, Settled{Entry: q.Entry, OrderID: q.OrderID, GiveBack: len(all)%100 == 0})
				all = append(all, q.OrderID)
			}
			check(t, g.Settle(t.Context(), sku, 1, settled))
			after = queue[len(queue)-1].Entry
		}
		if units, err := g.Release(t.Context(), sku, first, all[:ids]); err != nil || units != ids-5 {
			t.Errorf("released %d, %v", units, err)
		}
		check(t, g.Confirm(t.Context(), sku, first, all[ids:2*ids]))
		if view := look(t, g, sku); view.Holds != 23 || len(view.Queued) != 0 || view.Available != 10_000-4*calls+11+495 {
			t.Errorf("%d holds, %d queued, %d available after all but 24", view.Holds, len(view.Queued), view.Available)
		}
		for _, n := range sizes {
			if n != calls {
				t.Errorf("a call of %d", n)
			}
		}
	})
}
