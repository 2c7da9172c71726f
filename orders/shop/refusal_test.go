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
)

// isRefusal reports whether err is a final refusal.
func isRefusal(err error) bool {
	return errors.Is(err, inventory.ErrSoldOut) || errors.Is(err, inventory.ErrBuyerLimit) ||
		errors.Is(err, inventory.ErrClosed) || errors.Is(err, inventory.ErrNotOpen)
}

// If a node's copy of the sales is too old, the node reads the database before it refuses an
// order.
func TestRefusalIsLookedUp(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil) // p never renews its copy of the sales
		b := &bare.Bare{Store: p.store, Gate: p.gate}
		kit.PutSale(t, b.Store, kit.Sale("S", 1, 1))
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
			placed, err := p.answerRefusal(t.Context(), placement, c.r)
			if !errors.Is(err, c.want) || c.want == nil && (placed.Order == nil || placed.Order.Buyer != "ann" || !placed.Replayed) {
				t.Errorf("order with a key, %s: got %+v, error %v, want %v", what, placed, err, c.want)
			}
			placement.Key = ""
			if _, err := p.answerRefusal(t.Context(), placement, c.r); !errors.Is(err, inventory.ErrSoldOut) {
				t.Errorf("order without a key, %s: got error %v, want %v", what, err, inventory.ErrSoldOut)
			}
		}
	})
}

// A sale is opened again while a node refuses an order because the sale is over. The node's
// copy is fresh by then and vouches for the new gate. It does not vouch for the refusal, because
// that gate has not refused.
func TestCopyDoesNotVouchForAnEndedSale(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil)
		kit.PutSale(t, p.store, kit.Sale("S", 1, 1))
		placement := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		check.Must(t, p.catalog.Refresh(t.Context()))
		_, err := p.answerRefusal(t.Context(), placement, refusal{reason: inventory.ErrClosed, source: over})
		check.Is(t, err, orders.ErrUnavailable)
	})
}

// In a partition, node c reaches only Redis. Node a reaches MySQL and either no Redis or a
// promoted replica. The sale continues at a. During the partition, c must not refuse the replay
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
				c.Direct.EnterAfter = map[bool]time.Duration{false: 500 * time.Millisecond, true: time.Hour}[promoted]
			}
			a, c := open(t, viaA, change), open(t, viaC, change)
			a.put(t, kit.Sale("S", 1, 1))
			place := func(p *shop, buyer string) (Placed, error) {
				return p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: 1, Key: "k"})
			}
			ann := places(t, a, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}, nil)
			check.Eventually(t, "c answers that the sale is sold out, and its copy vouches for the gate", func() bool {
				_, err := place(c, "eve")
				sale := c.catalog.Cached("S")
				return errors.Is(err, inventory.ErrSoldOut) && sale != nil && sale.Epoch > 0
			})
			mysqlC.Cut()
			if promoted {
				check.Must(t, kit.OpenRedis(t, two.URL).SlaveOf(t.Context(), "no", "one").Err())
				redisA.Redirect(two.Real.Addr())
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
					t.Fatalf("replay of bob's order at c: got error %v, want no refusal", err)
				}
				time.Sleep(10 * time.Millisecond) // no signal shows that a refusal will not come, so ask for half a second
			}
		})
	}
}

// replica starts a replica of the stores' Redis, and waits until it is synchronized.
func replica(t *testing.T, s *servers.Stores) (*servertest.Redis, redis.UniversalClient) {
	t.Helper()
	two := servertest.OpenRedis(t, servers.KindReal)
	rdb := kit.OpenRedis(t, two.URL)
	host, port, _ := strings.Cut(s.Redis.Addr(), ":")
	check.Must(t, rdb.SlaveOf(t.Context(), host, port).Err())
	check.Eventually(t, "the replica is synchronized", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	return two, rdb
}

// A replica of Redis is promoted, and only one of two nodes connects to it. The other node
// remains at the old master. No replay of an order is refused, the sale continues, and the
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
	redisB.Redirect(two.Real.Addr())
	fenced := func() int64 {
		return a.Controller().Counters().Fenced.Load() + b.Controller().Counters().Fenced.Load()
	}
	began := time.Now()
	for i := 1; i <= 10 || time.Since(began) < 8*time.Second; i++ { // lasts several leases
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
				t.Fatalf("replay of %s's order at a: got error %v, want no refusal", buyer, err)
			}
		}
	}
	if n := fenced(); n > 3 {
		t.Errorf("keepers of two masters: got %d fencings of each other, want at most 3", n)
	}
}

// A replaced primary of MySQL commits nothing, but still answers reads. A node connected to it
// must not send a final refusal, because the new primary may have the order or the payment.
func TestReplacedPrimaryRefusesNothing(t *testing.T) {
	t.Parallel()
	my := servertest.OpenMySQL(t, servers.MySQLConfig{})
	dsn, err := my.NewDatabase(t.Context(), "flashsale")
	check.Must(t, err)
	redis := servertest.OpenRedis(t, servers.KindReal)
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: redis.URL, SQL: dsn, Redis: redis.Real}
	via, wire := servertest.RedisVia(t, s)
	p := open(t, via, func(c *Config) {
		brief(c)
		c.Store = bare.OpenStoreWith(t, s.SQL, 2*time.Second)
		c.Keeper.Lease = 2 * time.Second
		c.Direct.EnterAfter = 300 * time.Millisecond
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
	check.Must(t, my.RequireReplica(context.Background())) // from now on, commits wait for a replica that does not exist
	for what, err := range map[string]error{
		"an order in direct mode":      order("S"),
		"an order without units":       order("P"),
		"a payment":                    check.Err(p.Pay(t.Context(), "bob", bob.Order.ID, "another")),
		"the node's copy of the sales": p.catalog.Refresh(t.Context()),
		"a lookup of a key":            check.Err(p.answerRefusal(t.Context(), Placement{Buyer: "bob", SKU: "S", Quantity: 1, Key: "x"}, refusal{reason: inventory.ErrSoldOut, source: gate, epoch: 1})),
	} {
		if err == nil || isRefusal(err) {
			t.Errorf("call %s during the replacement of the primary: got error %v, want one that is not a refusal", what, err)
		}
	}
}
