package shop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// isRefusal reports whether err is a final refusal.
func isRefusal(err error) bool {
	return errors.Is(err, inventory.ErrSoldOut) || errors.Is(err, inventory.ErrBuyerLimit) ||
		errors.Is(err, inventory.ErrClosed) || errors.Is(err, inventory.ErrNotOpen)
}

// A node whose copy of the sales is too old looks into the database before it refuses.
func TestRefusalIsLookedUp(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil) // p never renews its copy of the sales
		b := &bare.Bare{Store: p.store, Gate: p.gate}
		kit.Put(t, b.Store, kit.Sale("S", 1, 1))
		b.Keeper(t, "S").Finish(t)
		b.Reserve(t, "ann", "k", 1)
		b.Keeper(t, "S").Finish(t)
		epoch := b.Epoch(t)
		for what, c := range map[string]struct {
			buyer string
			r     refusal
			mode  string
			want  error
		}{
			"a key without an order":           {"bob", refusal{source: gate, epoch: epoch}, orders.ModeGate, inventory.ErrSoldOut},
			"a change is announced":            {"bob", refusal{source: gate, epoch: epoch}, orders.ModeChanging, inventory.ErrSoldOut},
			"an order":                         {"ann", refusal{source: gate, epoch: epoch}, orders.ModeGate, nil},
			"a gate of an older epoch":         {"bob", refusal{source: gate, epoch: epoch - 1}, orders.ModeGate, orders.ErrUnavailable},
			"direct mode":                      {"bob", refusal{source: gate, epoch: epoch}, orders.ModeDirect, orders.ErrUnavailable},
			"orders take no units by now":      {"bob", refusal{source: gate, epoch: epoch}, "gate, on payment", orders.ErrUnavailable},
			"memory":                           {"bob", refusal{source: memory, epoch: epoch}, orders.ModeGate, orders.ErrUnavailable},
			"the database decided":             {"bob", refusal{source: database}, orders.ModeDirect, inventory.ErrSoldOut},
			"a sale that has ended":            {"bob", refusal{source: over}, orders.ModeOver, inventory.ErrSoldOut},
			"a sale that was opened again":     {"bob", refusal{source: over}, orders.ModeChanging, orders.ErrUnavailable},
			"an order of a sale that is over":  {"ann", refusal{source: over}, orders.ModeOver, nil},
			"an order in spite of direct mode": {"ann", refusal{source: gate, epoch: epoch}, orders.ModeDirect, nil},
		} {
			reserveOn := map[bool]string{false: orders.OnOrder, true: orders.OnPayment}[c.mode == "gate, on payment"]
			kit.Exec(t, b.Store.DB, "UPDATE sales SET mode = ?, reserve_on = ?", strings.TrimSuffix(c.mode, ", on payment"), reserveOn)
			c.r.reason = inventory.ErrSoldOut
			placement := Placement{Buyer: c.buyer, SKU: "S", Quantity: 1, Key: "k"}
			placed, err := p.refused(t.Context(), placement, c.r)
			if !errors.Is(err, c.want) || c.want == nil && (placed.Order == nil || placed.Order.Buyer != "ann" || !placed.Replayed) {
				t.Errorf("%s: %+v, %v, want %v", what, placed, err, c.want)
			}
			placement.Key = ""
			if _, err := p.refused(t.Context(), placement, c.r); !errors.Is(err, inventory.ErrSoldOut) {
				t.Errorf("%s, without a key: %v", what, err)
			}
		}
	})
}

// A sale that was over is open again. A node that took it for over has read it since, and
// its copy vouches for the gate. The refusal is not the gate's.
func TestOverIsNotVouchedFor(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil)
		kit.Put(t, p.store, kit.Sale("S", 1, 1))
		placement := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		check.Must(t, p.catalog.Refresh(t.Context()))
		_, err := p.refused(t.Context(), placement, refusal{reason: inventory.ErrClosed, source: over})
		check.Is(t, err, orders.ErrUnavailable)
	})
}

// A node with an old copy of a sale sends an order to the gate, whose epoch is that of
// orders without units. Another node may have refused the key since.
func TestGateOrderOfASaleOnPayment(t *testing.T) {
	t.Parallel()
	b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 2, 1))
	put := kit.Sale("S", 2, 1)
	put.ReserveOn = orders.OnPayment
	kit.Put(t, b.Store, put)
	k := b.Keeper(t, "S")
	k.Finish(t) // the epoch of orders without units begins
	b.Reserve(t, "ann", "k", 1)
	b.Reserve(t, "bob", "", 1)
	back := dump(t, b)
	k.Finish(t)
	if n := len(b.Rows(t)); n != 0 {
		t.Errorf("%d orders that hold units", n)
	}
	b.Stands(t, 0, 2)
	back()
	put.ReserveOn = orders.OnOrder // as it was, but the epoch is still the same
	kit.Put(t, b.Store, put)
	k.Want |= keeper.Drain
	check.Must(t, k.Step(t.Context()))
	if n := len(b.Rows(t)); n != 0 {
		t.Errorf("after a change back %d orders that hold units", n)
	}
}

// A partition: c reaches Redis alone, a reaches MySQL alone or a promoted replica and
// MySQL. The sale continues at a. While the partition lasts, c must not refuse the replay
// of an order that was placed at a.
func TestPartitionedNodeRefusesNoReplay(t *testing.T) {
	t.Parallel()
	for _, promoted := range []bool{false, true} {
		t.Run(fmt.Sprint("replica promoted ", promoted), func(t *testing.T) {
			t.Parallel()
			s := servertest.Open(t, servers.KindReal)
			viaA, redisA := servertest.RedisVia(t, s)
			viaC, mysqlC := servertest.SQLVia(t, s)
			two, _ := replica(t, s)
			change := func(c *Config) {
				brief(c)
				c.Keeper.Lease = 2 * time.Second
				c.Direct.After = map[bool]time.Duration{false: 500 * time.Millisecond, true: time.Hour}[promoted]
			}
			a, c := open(t, viaA, change), open(t, viaC, change)
			a.put(t, kit.Sale("S", 1, 1))
			place := func(p *shop, buyer string) (Placed, error) {
				return p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: 1, Key: "k"})
			}
			ann := places(t, a, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}, nil)
			check.Eventually(t, "c answers that the sale is sold out, and its copy vouches for the gate", func() bool {
				_, err := place(c, "eve")
				sale := c.catalog.Known("S")
				return errors.Is(err, inventory.ErrSoldOut) && sale != nil && sale.Epoch > 0
			})
			mysqlC.Cut()
			if promoted {
				check.Must(t, kit.OpenRedis(t, two.URL).SlaveOf(t.Context(), "no", "one").Err())
				redisA.Lead(two.Real.Addr())
			} else {
				redisA.Cut()
				untilMode(t, orders.ModeDirect, a)
			}
			check.Eventually(t, "ann has cancelled", func() bool { return check.Err(a.Cancel(t.Context(), "ann", ann.Order.ID)) == nil })
			check.Eventually(t, "bob has ann's unit", func() bool {
				bob, err := place(a, "bob")
				return err == nil && bob.Order.Status == orders.PendingPayment
			})
			for range 50 {
				if _, err := place(c, "bob"); isRefusal(err) {
					t.Fatalf("bob has an order, and c answers %v", err)
				}
				time.Sleep(10 * time.Millisecond) // samples over a while, because no signal shows that a refusal will not come
			}
		})
	}
}

// replica starts a Redis that follows the stores' Redis and is in step with it.
func replica(t *testing.T, s *servers.Stores) (*servertest.Redis, redis.UniversalClient) {
	t.Helper()
	two := servertest.OpenRedis(t, servers.KindReal)
	rdb := kit.OpenRedis(t, two.URL)
	host, port, _ := strings.Cut(s.Redis.Addr(), ":")
	check.Must(t, rdb.SlaveOf(t.Context(), host, port).Err())
	check.Eventually(t, "the replica is in step", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	return two, rdb
}

// A replica of Redis is promoted, and only one of two nodes is led to it. The other node
// stays with the old master. No replay of an order is refused, the sale continues, and the
// two keepers do not fence each other off in turn.
func TestTwoRedisMasters(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	viaB, redisB := servertest.RedisVia(t, s)
	two, promoted := replica(t, s)
	change := func(c *Config) {
		brief(c)
		c.Keeper.Lease = 2 * time.Second
	}
	a, b := open(t, s, change), open(t, viaB, change)
	a.put(t, kit.Sale("S", 1, 1))
	place := func(p *shop, buyer string) (Placed, error) {
		return p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: 1, Key: "k"})
	}
	last := places(t, a, Placement{Buyer: "buyer-0", SKU: "S", Quantity: 1, Key: "k"}, nil)
	check.Must(t, promoted.SlaveOf(t.Context(), "no", "one").Err())
	redisB.Lead(two.Real.Addr())
	fenced := func() int64 {
		return a.Keepers().Counters().Fenced.Load() + b.Keepers().Counters().Fenced.Load()
	}
	began := time.Now()
	for i := 1; i <= 10 || time.Since(began) < 8*time.Second; i++ { // for several leases
		was := last.Order
		check.Eventually(t, was.Buyer+" cancels", func() bool { return check.Err(b.Cancel(t.Context(), was.Buyer, was.ID)) == nil })
		buyer := fmt.Sprint("buyer-", i)
		check.Eventually(t, buyer+" has the unit", func() (done bool) {
			var err error
			last, err = place(b, buyer)
			return err == nil && last.Order.Status == orders.PendingPayment
		})
		for range 10 {
			if _, err := place(a, buyer); isRefusal(err) {
				t.Fatalf("%s has an order of b, and a answers %v", buyer, err)
			}
		}
	}
	if n := fenced(); n > 3 {
		t.Errorf("the keepers fenced each other off %d times", n)
	}
}

// A replaced primary of MySQL commits nothing, and still answers reads. A node at that
// primary must not send a final refusal, because the new primary may have the payment or
// the order.
func TestReplacedPrimaryRefusesNothing(t *testing.T) {
	t.Parallel()
	my := servertest.OpenMySQL(t, servers.MySQLOptions{})
	dsn, err := my.NewDatabase(t.Context(), "flashsale")
	check.Must(t, err)
	redis := servertest.OpenRedis(t, servers.KindReal)
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: redis.URL, SQL: dsn, Redis: redis.Real}
	via, wire := servertest.RedisVia(t, s)
	p := open(t, via, func(c *Config) {
		brief(c)
		c.Store = bare.OpenStoreWith(t, s.SQL, 2*time.Second)
		c.Keeper.Lease = 2 * time.Second
		c.Direct.After = 300 * time.Millisecond
	})
	put := kit.Sale("S", 1, 1)
	p.put(t, put)
	put.SKU, put.ReserveOn = "P", orders.OnPayment
	p.put(t, put)
	ann := places(t, p, Placement{Buyer: "ann", SKU: "P", Quantity: 1, Key: "k"}, nil)
	bob := places(t, p, Placement{Buyer: "bob", SKU: "P", Quantity: 1, Key: "k"}, nil)
	pays(t, p, "ann", ann.Order.ID, "ref", nil)
	check.Eventually(t, "bob's payment is refused while the primary commits", func() bool {
		return errors.Is(check.Err(p.Pay(t.Context(), "bob", bob.Order.ID, "ref")), inventory.ErrSoldOut)
	})
	order := func(sku string) error {
		_, err := p.Place(t.Context(), Placement{Buyer: "bob", SKU: sku, Quantity: 1, Key: "other"})
		return err
	}
	check.Must(t, check.Err(p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})))
	wire.Cut()
	check.Eventually(t, "both sales are sold in direct mode", func() bool { return p.controller.DirectSales() == 2 })
	check.Eventually(t, "direct mode refuses an order while the primary commits", func() bool { return errors.Is(order("S"), inventory.ErrSoldOut) })
	check.Must(t, my.Lossless(context.Background())) // commits wait for a replica from now on, and there is none
	for what, err := range map[string]error{
		"an order in direct mode":      order("S"),
		"an order without units":       order("P"),
		"a payment":                    check.Err(p.Pay(t.Context(), "bob", bob.Order.ID, "another")),
		"the node's copy of the sales": p.catalog.Refresh(t.Context()),
		"a look for a key":             check.Err(p.refused(t.Context(), Placement{Buyer: "bob", SKU: "S", Quantity: 1, Key: "x"}, refusal{reason: inventory.ErrSoldOut, source: gate, epoch: 1})),
	} {
		if err == nil || isRefusal(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// dying is the gate of a keeper that dies between Recount and Install.
type dying struct{ keeper.Gate }

func (dying) Install(context.Context, *inventory.Draft, int64, inventory.View) (bool, error) {
	return false, errors.New("dead")
}

// dump copies the sale's keys in Redis, and returns a function that puts them back.
func dump(t *testing.T, b *bare.Bare) (restore func()) {
	t.Helper()
	had := map[string]string{}
	for _, key := range b.Rdb.Keys(t.Context(), "sale:{S}*").Val() {
		had[key] = b.Rdb.Dump(t.Context(), key).Val()
	}
	return func() {
		check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
		for key, value := range had {
			check.Must(t, b.Rdb.Restore(t.Context(), key, 0, value).Err())
		}
	}
}

// An order waits in the queue of a gate that is replaced. Then its key is refused, and
// Redis goes back to the old queue. The order must not become durable.
func TestOldQueueIsNotCommitted(t *testing.T) {
	t.Parallel()
	queued := func(buyer string) []inventory.Queued { return []inventory.Queued{asked(buyer, "k", 1)} }
	durable := func(t *testing.T, b *bare.Bare, buyer string) bool {
		o, err := b.Store.OrderByKey(t.Context(), "S", buyer, "k")
		return err == nil && o.Status != orders.Rejected
	}
	// Direct mode refuses ann's key. The keeper that ends direct mode dies between Recount
	// and Install, and Redis goes back to before the queue was dropped.
	afterDirect := func(t *testing.T, enter func(*bare.Bare)) bool {
		b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 1, 1))
		b.Reserve(t, "ann", "k", 1)
		back := dump(t, b)
		enter(b)
		bob, err := b.Store.Direct(t.Context(), "S", queued("bob"))
		check.Must(t, err)
		ann, err := b.Store.Direct(t.Context(), "S", queued("ann"))
		if check.Must(t, err); ann[0].Refused != orders.SoldOut {
			t.Fatalf("ann: %+v", ann[0])
		}
		check.Must(t, check.Err(b.Store.Cancel(t.Context(), "bob", bob[0].Order.ID)))
		first := bare.KeeperOf(t, b.Store, dying{b.Gate}, "S")
		_ = first.Step(t.Context())
		back()
		b.Keeper(t, "S").Finish(t)
		return durable(t, b, "ann")
	}
	t.Run("direct mode ends", func(t *testing.T) {
		if afterDirect(t, func(b *bare.Bare) { b.EnterDirect(t) }) {
			t.Error("ann's key was refused, and has an order")
		}
	})
	t.Run("direct mode, twin", func(t *testing.T) {
		if !afterDirect(t, func(b *bare.Bare) {
			kit.Exec(t, b.Store.DB, "UPDATE sales SET fence = fence + 1, mode = 'direct'") // the epoch does not change
		}) {
			t.Error("direct mode under the epoch of the old gate is not caught")
		}
	})
	t.Run("Redis fails over and back", func(t *testing.T) {
		b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 1, 1))
		promoted := dump(t, b)
		b.Reserve(t, "ann", "k", 1)
		failBack := dump(t, b)
		promoted()
		check.Must(t, check.Err(b.Store.AskRebuild(t.Context(), "S")))
		k := b.Keeper(t, "S")
		k.Finish(t)
		b.Reserve(t, "bob", "k", 1)
		k.Finish(t)
		_, err := b.Gate.Reserve(t.Context(), inventory.Request{OrderID: "late", SKU: "S", Buyer: "ann", Quantity: 1, Key: "k"})
		check.Is(t, err, inventory.ErrSoldOut)
		bob, err := b.Store.OrderByKey(t.Context(), "S", "bob", "k")
		check.Must(t, err)
		check.Must(t, check.Err(b.Store.Cancel(t.Context(), "bob", bob.ID)))
		k.Finish(t)
		failBack()
		k.Want |= keeper.Drain
		k.Finish(t)
		if durable(t, b, "ann") {
			t.Error("ann's key was refused, and has an order")
		}
	})
}

// A sale changes to taking units on payment. The gate does not know orders without units,
// so the first such order must wait until no node relies on the gate.
func TestNoOrderWithoutUnitsBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 2, 1))
		put := kit.Sale("S", 2, 1)
		put.ReserveOn = orders.OnPayment
		kit.Put(t, b.Store, put)
		order := func() error {
			return check.Err(b.Store.CommitOnPayment(t.Context(), "S", []inventory.Queued{asked("ann", "k", 1)}))
		}
		check.Is(t, order(), orders.ErrTakesUnits)
		if sale, err := b.Store.Sale(t.Context(), "S"); err != nil || sale.Mode != orders.ModeChanging || sale.TakesOnPayment() {
			t.Errorf("%+v, %v", sale, err)
		}
		// An epoch cannot end before its end was announced.
		fence := b.Keeper(t, "S").Fence()
		recount := func(epoch int64, updated time.Duration) error {
			sale, err := b.Store.Sale(t.Context(), "S")
			check.Must(t, err)
			sale.Epoch, sale.UpdatedAt = epoch, sale.UpdatedAt.Add(updated)
			return check.Err(b.Store.Recount(t.Context(), store.NewSnapshot("S"), sale, fence, epoch))
		}
		check.Is(t, recount(b.Epoch(t)-1, 0), orders.ErrNotAnnounced)
		check.Is(t, recount(b.Epoch(t), -time.Millisecond), orders.ErrNotAnnounced) // the sale was changed after the announcement
		if entered, err := b.Store.EnterDirect(t.Context(), "S", b.Epoch(t)-1, inventory.Standalone, time.Minute); entered || err != nil {
			t.Error("direct mode was entered without an announcement: ", err)
		}
		b.Keeper(t, "S").Finish(t)
		check.Must(t, order())
		fence = b.Keeper(t, "S").Fence()
		check.Is(t, recount(b.Epoch(t), 0), orders.ErrNotAnnounced)
	})
}
