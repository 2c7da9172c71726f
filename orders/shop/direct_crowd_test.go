package shop

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// While a crowd orders, pays and cancels, Redis fails and returns several times, with its data
// or empty. The clocks of the two nodes differ by minutes. Orders are accepted in both modes,
// and the rows agree with all answers.
func TestRedisComesAndGoesUnderLoad(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := servertest.RedisVia(t, s)
		node := func(off time.Duration) *shop {
			return open(t, via, func(c *Config) {
				brief(c)
				soonDirect(c)
				c.Clock = func() time.Time { return time.Now().Add(off) }
			})
		}
		a, b := node(7*time.Minute), node(-4*time.Minute)
		a.put(t, kit.Sale("S", 100_000, 100_000)) // direct mode sells quickly
		uncut := kit.OpenRedis(t, s.RedisURL)
		c, stop := gather(t, "S", 8, a, b)
		direct := func() int64 {
			return a.Controller().Counters().DirectPlaced.Load() + b.Controller().Counters().DirectPlaced.Load()
		}
		for round := range 2 {
			c.waitFor(t, "through the gate", 20)
			wire.Cut() // a short outage
			wire.Restore()
			c.waitFor(t, "after a short outage", 20)
			wire.Cut()
			untilMode(t, orders.ModeDirect, a, b)
			from := direct()
			check.Eventually(t, "orders are placed in direct mode", func() bool { return direct() >= from+20 })
			if round > 0 {
				check.Must(t, uncut.FlushAll(t.Context()).Err())
			}
			wire.Restore()
			untilMode(t, orders.ModeGate, a, b)
		}
		c.waitFor(t, "through the last gate", 20)
		stop()
		c.verify(t)
	})
}

// directRules contains the functions that enter direct mode and place orders in it.
type directRules struct {
	enter func(*testing.T, *bare.Bare)
	order func(*testing.T, *bare.Bare, []inventory.QueuedOrder) ([]orders.Decision, error)
}

var rightRules = directRules{
	enter: func(t *testing.T, b *bare.Bare) {
		check.Must(t, check.Err(bare.EnterDirect(t, b.Store, time.Minute))) // the sale may be in direct mode already
	},
	order: func(t *testing.T, b *bare.Bare, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
		return b.Store.CommitDirect(t.Context(), "S", batch)
	},
}

// directTwins maps the name of a defect to rules that have it. The right rules have no name.
var directTwins = map[string]directRules{
	"": rightRules,
	"orders not conditional on the mode": {enter: rightRules.enter, order: func(t *testing.T, b *bare.Bare, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
		return b.Store.CommitWithoutGate(t.Context(), "S", batch, store.DirectMode, nil, func(*store.LockedSale) bool { return true })
	}},
}

// The steps of old and new keepers, orders through the gate and in direct mode, cancellations,
// and losses of Redis's data run in a random order. Accepted orders are in the database and
// never exceed the stock. Refused orders are not in it. At the end a keeper that works alone
// makes both stores agree. The test catches each broken twin.
func TestDirectModeInAnyOrder(t *testing.T) {
	t.Parallel()
	for broken, rules := range directTwins {
		t.Run("rules "+broken, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b := bare.Open(t, s, kit.Sale("S", 3, 3))
				var wrong []string
				const runs = 25
				for seed := uint64(1); seed <= 4*runs && len(wrong) == 0; seed++ {
					if broken == "" && seed > runs {
						break
					}
					wrong = rules.anyOrder(t, b, rand.New(rand.NewPCG(seed, 0)))
				}
				if (len(wrong) > 0) != (broken != "") {
					t.Errorf("direct mode with broken rules %q: got violations %q, want some only with broken rules", broken, wrong)
				}
			})
		})
	}
}

// anyOrder runs random steps on empty stores, and returns the violations.
func (rules directRules) anyOrder(t *testing.T, b *bare.Bare, r *rand.Rand) (wrong []string) {
	t.Helper()
	b.DeleteAll(t)
	kit.PutSale(t, b.Store, kit.Sale("S", 3, 3))
	keepers := []*bare.Keeper{b.Keeper(t, "S")}
	keepers[0].Finish(t)
	accepted := map[string]bool{}
	refused := map[[2]string]bool{} // buyer and key → direct mode refused the last request with that key
	for range 12 + r.IntN(12) {
		buyer, key, units := []string{"ann", "bob", "eve"}[r.IntN(3)], []string{"", "k", "l"}[r.IntN(3)], 1+r.Int64N(2)
		switch r.IntN(10) {
		case 0, 1: // the gate may accept or refuse
			q := asked(buyer, key, units)
			delete(refused, [2]string{buyer, key})
			_, _ = b.Gate.Reserve(t.Context(), inventory.Request{
				OrderID: q.OrderID, SKU: "S", Buyer: buyer, Quantity: units, Key: key, Fingerprint: q.Fingerprint,
			})
		case 2, 3, 4:
			decisions, err := rules.order(t, b, []inventory.QueuedOrder{asked(buyer, key, units), asked("joe", key, units)})
			if err != nil && !errors.Is(err, orders.ErrNotDirect) {
				t.Fatalf("direct commit: got error %v, want none or ErrNotDirect", err)
			}
			for _, d := range decisions {
				refused[[2]string{d.Queued.Buyer, d.Queued.Key}] = d.Refused == orders.SoldOut && d.Queued.Key != ""
				if d.Order != nil && d.Refused == "" {
					accepted[d.Order.ID] = true
				}
			}
		case 5:
			rules.enter(t, b)
		case 6: // a replaced keeper may work as well
			k := keepers[r.IntN(len(keepers))]
			k.Work |= keeper.ReleaseHolds
			if r.IntN(2) == 0 {
				k.Work |= keeper.CorrectGate
			}
			if err := k.Step(t.Context()); err != nil && !fencedOff(err) {
				t.Fatalf("step of the keeper: got error %v, want none or a fencing error", err)
			}
		case 7:
			k := b.Keeper(t, "S")
			keepers = append(keepers, k)
			if r.IntN(2) == 0 {
				k.Finish(t)
			}
		case 8:
			cancelOne(t, b)
		case 9:
			if r.IntN(3) == 0 {
				check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
			}
		}
		if kit.OpenUnits(b.Rows(t)) > 3 {
			wrong = append(wrong, "oversold")
		}
	}
	b.Keeper(t, "S").Finish(t)
	rows := b.Rows(t)
	for id := range accepted {
		if _, ok := rows[id]; !ok {
			wrong = append(wrong, "lost "+id)
		}
	}
	for id, o := range rows {
		if o.IdempotencyKey != nil && o.Status != orders.Rejected && refused[[2]string{o.Buyer, *o.IdempotencyKey}] {
			wrong = append(wrong, "refused, and durable: "+id)
		}
	}
	return append(wrong, b.Inconsistencies(t)...)
}

// cancelOne cancels one of the pending orders, if there is one.
func cancelOne(t testing.TB, b *bare.Bare) {
	t.Helper()
	for id, o := range b.Rows(t) {
		if o.Status == orders.PendingPayment {
			check.Must(t, check.Err(b.Store.Cancel(t.Context(), o.Buyer, id)))
			return
		}
	}
}

func fencedOff(err error) bool {
	return errors.Is(err, orders.ErrFenced)
}
