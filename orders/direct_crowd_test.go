package orders

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Redis goes and comes back again and again under a crowd that orders, pays and
// cancels, as it was or empty, on nodes whose clocks are minutes apart. The
// crowd gets its yes either way, and no promise is broken.
func TestRedisComesAndGoesUnderLoad(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := redisVia(t, s)
		node := func(off time.Duration) *shop {
			return open(t, via, func(c *Config) {
				soonDirect(c)
				c.Clock = func() time.Time { return time.Now().Add(off) }
			})
		}
		a, b := node(7*time.Minute), node(-4*time.Minute)
		a.put(t, sale("S", 100_000, 100_000)) // without Redis, they buy quickly
		behind := openRedis(t, s.RedisURL)    // the crowd's is cut
		c, home := gather(t, "S", 8, a, b)
		direct := func() int64 { return a.Counters().DirectPlaced.Load() + b.Counters().DirectPlaced.Load() }
		for round := range 2 {
			c.moves(t, "through the gate", 20)
			wire.cut()
			untilMode(t, modeDirect, a, b)
			from := direct()
			eventually(t, "orders go the direct way", func() bool { return direct() >= from+20 })
			if round > 0 {
				if err := behind.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			wire.restore()
			untilMode(t, modeGate, a, b)
		}
		c.moves(t, "through the last gate", 20)
		home()
		c.verdict(t)
	})
}

// directRules are how the direct way is entered, and how an order goes it.
type directRules struct {
	enter func(*testing.T, *bare)
	order func(*testing.T, *bare, []inventory.Queued) ([]verdict, error)
}

var rightRules = directRules{
	enter: func(t *testing.T, b *bare) {
		if _, err := b.store.EnterDirect(t.Context(), "S", time.Minute); err != nil {
			t.Fatal(err)
		}
	},
	order: func(t *testing.T, b *bare, batch []inventory.Queued) ([]verdict, error) {
		return b.store.Direct(t.Context(), "S", batch)
	},
}

// Any interleaving of keepers that were and are, of orders through the gate and
// past it, of cancellations, and of a Redis that loses all: what was promised is
// in the database, never more than there is, and a keeper that is left alone
// makes both stores say the same. Each broken twin is caught by that.
func TestDirectWayInAnyOrder(t *testing.T) {
	twins := map[string]directRules{
		"": rightRules,
		"orders not conditional on the mode": {enter: rightRules.enter, order: func(t *testing.T, b *bare, batch []inventory.Queued) ([]verdict, error) {
			return b.store.commitUngated(t.Context(), "S", batch, ungated, func(*lockedSale) error { return nil })
		}},
		"entering without raising the epoch": {order: rightRules.order, enter: func(t *testing.T, b *bare) {
			exec(t, b.store, "UPDATE sales SET fence = fence + 1, mode = 'direct' WHERE mode = 'gate'")
		}},
	}
	for broken, rules := range twins {
		t.Run("rules "+broken, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b := openBare(t, s, sale("S", 6, 4))
				var wrong []string
				const runs = 25
				for seed := uint64(1); seed <= 4*runs && len(wrong) == 0; seed++ {
					if broken == "" && seed > runs {
						break
					}
					wrong = rules.anyOrder(t, b, rand.New(rand.NewPCG(seed, 0)))
				}
				if (len(wrong) > 0) != (broken != "") {
					t.Errorf("%s: %q", broken, wrong)
				}
			})
		})
	}
}

// anyOrder is one run from the beginning. It returns what is wrong in the end.
func (rules directRules) anyOrder(t *testing.T, b *bare, r *rand.Rand) (wrong []string) {
	t.Helper()
	b.empty(t)
	if _, err := b.store.PutSale(t.Context(), sale("S", 6, 4)); err != nil {
		t.Fatal(err)
	}
	keepers := []*keeper{b.keeper(t, "S")}
	keepers[0].finish(t)
	promised := map[string]bool{}
	for range 12 + r.IntN(12) {
		buyer, key, units := []string{"ann", "bob", "eve"}[r.IntN(3)], []string{"", "k", "l"}[r.IntN(3)], 1+r.Int64N(2)
		switch r.IntN(10) {
		case 0, 1: // whatever the gate makes of it
			q := asked(buyer, key, units)
			_, _ = b.gate.Reserve(t.Context(), inventory.Request{
				OrderID: q.OrderID, SKU: "S", Buyer: buyer, Quantity: units, Key: key, Fingerprint: q.Fingerprint,
			})
		case 2, 3, 4:
			verdicts, err := rules.order(t, b, []inventory.Queued{asked(buyer, key, units), asked("joe", key, units)})
			if err != nil && !errors.Is(err, errNotDirect) {
				t.Fatal(err)
			}
			for _, v := range verdicts {
				if v.order != nil && v.refused == "" {
					promised[v.order.ID] = true
				}
			}
		case 5:
			rules.enter(t, b)
		case 6: // one that was may come to
			k := keepers[r.IntN(len(keepers))]
			k.ended.Store(true)
			k.inspect.Store(r.IntN(2) == 0)
			if _, err := k.pass(t.Context()); err != nil && !fencedOff(err) {
				t.Fatal(err)
			}
		case 7:
			k := b.keeper(t, "S")
			keepers = append(keepers, k)
			if r.IntN(2) == 0 {
				k.finish(t)
			}
		case 8:
			for id, o := range b.rows(t) {
				if o.Status == PendingPayment {
					if _, err := b.store.Cancel(t.Context(), o.Buyer, id); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
		case 9:
			if r.IntN(3) == 0 {
				if err := b.rdb.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var sold int64
		for _, o := range b.rows(t) {
			if o.Status.Open() {
				sold += o.Quantity
			}
		}
		if sold > 6 {
			wrong = append(wrong, "oversold")
		}
	}
	b.keeper(t, "S").finish(t)
	rows := b.rows(t)
	for id := range promised {
		if _, ok := rows[id]; !ok {
			wrong = append(wrong, "lost "+id)
		}
	}
	return append(wrong, b.wrong(t)...)
}

func fencedOff(err error) bool {
	return errors.Is(err, ErrFenced) || errors.Is(err, inventory.ErrFenced)
}
