package shop

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/controller"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// soonDirect makes a node enter and leave direct mode after 100 ms.
func soonDirect(c *Config) {
	c.Keeper.Lease = time.Second
	c.Direct.EnterAfter = 100 * time.Millisecond
}

// modeOf returns the mode of sale S in the database.
func modeOf(t testing.TB, st *store.Store) string {
	t.Helper()
	sale, err := st.Sale(t.Context(), "S")
	check.Must(t, err)
	return sale.Mode
}

// untilMode waits until the database and the nodes' copies have sale S in this mode.
func untilMode(t testing.TB, mode string, nodes ...*shop) {
	t.Helper()
	check.Eventually(t, "S has mode "+mode, func() bool {
		for _, p := range nodes {
			if sale := p.catalog.Cached("S"); modeOf(t, p.store) != mode || sale == nil || sale.Mode != mode {
				return false
			}
		}
		return true
	})
}

// Without Redis, two nodes keep all promises to buyers and operators. When Redis is back, the
// sale continues through a gate.
func TestDirectMode(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := servertest.RedisVia(t, s)
		a, b := open(t, via, soonDirect), open(t, via, soonDirect)
		ctx := t.Context()
		put := kit.Sale("S", 6, 3)
		a.put(t, put)
		place := func(p *shop, buyer, key string, quantity int64) (Placed, error) {
			return untilKnown(t, func() (Placed, error) {
				return p.Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key})
			})
		}
		accepted := func(p *shop, buyer, key string, quantity int64) *orders.Order {
			t.Helper()
			answer, err := place(p, buyer, key, quantity)
			if err != nil || answer.Order.Status != orders.PendingPayment {
				t.Fatalf("order of %s, %d units with key %q: got %+v, error %v, want it pending", buyer, quantity, key, answer, err)
			}
			return answer.Order
		}
		refused := func(want error, p *shop, buyer, key string, quantity int64) {
			t.Helper()
			check.Is(t, check.Err(place(p, buyer, key, quantity)), want)
		}
		replays := func(want *orders.Order) {
			t.Helper()
			replay, err := place(a, want.Buyer, *want.IdempotencyKey, want.Quantity)
			if err != nil || !replay.Replayed || replay.Order.ID != want.ID {
				t.Errorf("replay: got %+v, error %v, want order %s", replay, err, want.ID)
			}
		}
		before := accepted(a, "ann", "k", 1)

		wire.Cut()
		untilMode(t, orders.ModeDirect, a, b)
		check.Eventually(t, "both nodes are in direct mode", func() bool { return a.Controller().InDirectMode() && b.Controller().InDirectMode() })
		if n := a.Controller().Counters().DirectEntered.Load() + b.Controller().Counters().DirectEntered.Load(); n != 1 {
			t.Errorf("sale: got direct mode entered %d times, want once", n)
		}
		first := accepted(b, "ann", "l", 2)
		refused(inventory.ErrBuyerLimit, a, "ann", "m", 1)
		refused(inventory.ErrMismatch, b, "ann", "k", 2)
		bob := accepted(a, "bob", "k", 3)
		refused(inventory.ErrSoldOut, b, "eve", "", 1)
		replays(before)
		replays(first)
		pays(t, b, "ann", first.ID, "ref", nil)
		cancels(t, b, "bob", bob.ID, nil)
		eve := accepted(b, "eve", "k", 1) // one of the units that bob has released
		if o, err := a.Order(ctx, "eve", uuid.NewString(), "S", "k"); err != nil || o.Buyer != "eve" {
			t.Errorf("order by its key: got %+v, error %v, want eve's", o, err)
		}
		put.Total++
		if _, _, err := a.PutSale(ctx, put); err != nil {
			t.Errorf("raise the total in direct mode: got error %v, want none", err)
		}
		if audit, err := b.Audit(ctx, "S"); err != nil || !audit.Balanced || audit.Sold != 4 || audit.Available+audit.Restoring != 3 {
			t.Errorf("audit: got %+v, error %v, want 4 sold and 3 available or restoring", audit, err)
		}
		check.Eventually(t, "the offer has the units that the database has", func() bool {
			offers, err := b.Offers(ctx)
			return err == nil && len(offers) == 1 && offers[0].Available == 3
		})
		if rows := kit.RowsOf(t, a.store.DB); len(rows) != 4 {
			t.Errorf("orders of the sale: got %d rows, want 4, because a refusal must not leave a row", len(rows))
		}
		put.OpensAt, put.ClosesAt = put.OpensAt.Add(2*time.Hour), put.ClosesAt.Add(2*time.Hour)
		_, _, _ = a.PutSale(ctx, put)
		refused(inventory.ErrNotOpen, a, "joe", "", 1)
		check.OK(t, check.Err(a.EndSale(ctx, "S")))
		refused(inventory.ErrClosed, b, "joe", "", 1)
		replays(eve) // after the sale
		_, _, _ = a.PutSale(ctx, kit.Sale("S", 7, 3))

		wire.Restore()
		untilMode(t, orders.ModeGate, a, b)
		a.settledAt(t, 4, 3)
		if a.Controller().Counters().DirectEnded.Load()+b.Controller().Counters().DirectEnded.Load() != 1 {
			t.Error("sale: got direct mode left not exactly once, want once")
		}
		check.Eventually(t, "joe has the last units, through the gate", func() bool {
			_, err := place(a, "joe", "k", 3)
			return err == nil
		})
		refused(inventory.ErrSoldOut, b, "max", "", 1)
		if sold := a.settled(t, "S").Sold; sold != 7 {
			t.Errorf("sale: got %d units sold, want 7", sold)
		}
	})
}

// A node that alone has lost Redis does not enter direct mode, because the other nodes sell
// through the gate.
func TestCutOffNodeChangesNothing(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := servertest.RedisVia(t, s)
		named := func(name string) func(*Config) {
			return func(c *Config) {
				soonDirect(c)
				c.Store.Node, c.Keeper.Lease = name, bare.Patience // a node counts as alive for a lease
			}
		}
		keeps, other := "a", "b"
		if controller.ShouldKeep([]string{keeps, other}, "S") != keeps {
			keeps, other = other, keeps
		}
		healthy := open(t, s, named(keeps))
		healthy.put(t, kit.Sale("S", 100, 100))
		cut := open(t, via, named(other))
		check.Eventually(t, "the other node has read the sales", func() bool { return cut.catalog.All() != nil })
		wire.Cut()
		check.Eventually(t, "the other node has lost Redis", cut.Controller().RedisDown)
		was, err := healthy.store.Sale(t.Context(), "S")
		check.Must(t, err)
		for i := range 20 {
			check.Must(t, cut.Controller().EnterDirect(t.Context()))
			places(t, healthy, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: fmt.Sprint(i)}, nil)
		}
		unchanged := func() bool {
			now, err := healthy.store.Sale(t.Context(), "S")
			return err == nil && now.Epoch == was.Epoch && now.Mode == orders.ModeGate
		}
		if !unchanged() || cut.Controller().InDirectMode() {
			t.Error("node that is cut off: it has changed the sale or its mode, want no change")
		}
		for what, err := range map[string]error{
			"an order":                          check.Err(cut.Place(t.Context(), Placement{Buyer: "bob", SKU: "S", Quantity: 1})),
			"an order that may be in the queue": check.Err(cut.Cancel(t.Context(), "bob", orders.NewOrderID("S"))),
		} {
			if !isUnavailable(err) {
				t.Errorf("node that is cut off, %s: got error %v, want unavailable", what, err)
			}
		}
		// The broken twin ignores the heartbeats of other nodes.
		if entered, err := bare.EnterDirect(t, cut.store, 0); !entered || err != nil || unchanged() {
			t.Errorf("broken twin: got entered %t, error %v, want direct mode", entered, err)
		}
	})
}

// A node enters direct mode only if the heartbeats show no live node that can write to Redis.
func TestEnterDirect(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		const alive = time.Minute
		st := bare.OpenStore(t, dsn)
		kit.PutSale(t, st, kit.Sale("S", 10, 5))
		enters := func(want bool, when string) {
			t.Helper()
			entered, err := bare.EnterDirect(t, st, alive)
			if entered != want || err != nil {
				t.Errorf("enter direct mode, %s: got %t, error %v, want %t", when, entered, err, want)
			}
			twice, err := bare.EnterDirect(t, st, alive)
			if twice || err != nil {
				t.Errorf("enter direct mode, %s, second call: got %t, error %v, want false", when, twice, err)
			}
			kit.Exec(t, st.DB, "UPDATE sales SET mode = 'gate'")
		}
		beat := func(node string, unwritable ...string) {
			t.Helper()
			nodes, err := st.Heartbeat(t.Context(), node, unwritable, alive)
			if err != nil || !slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == node }) {
				t.Fatalf("heartbeat of %s: got nodes %+v, error %v, want it among them", node, nodes, err)
			}
		}
		beat("me", inventory.Standalone)
		beat("keeper")
		enters(false, "while the keeper reaches Redis")
		kit.Exec(t, st.DB, "UPDATE nodes SET seen_at = ? WHERE id = 'keeper'", kit.ClockOf(t, st.DB).Add(-alive/2))
		enters(false, "while the keeper may be slow")
		kit.Exec(t, st.DB, "UPDATE nodes SET seen_at = ? WHERE id = 'keeper'", kit.ClockOf(t, st.DB).Add(-2*alive))
		enters(true, "once the keeper is dead")
		kit.Exec(t, st.DB, "UPDATE nodes SET seen_at = ? WHERE id = 'keeper'", kit.ClockOf(t, st.DB).Add(2*alive))
		enters(true, "once the database's clock was set back")
		if nodes, err := st.Heartbeat(t.Context(), "me", []string{inventory.Standalone}, alive); err != nil || len(nodes) != 1 || nodes[0].ID != "me" {
			t.Errorf("live nodes: got %+v, error %v, want only me", nodes, err)
		}
		beat("keeper", inventory.Standalone)
		enters(true, "once the keeper reports that it cannot write to Redis")
		beat("third", "a:1", "b:1")
		enters(false, "while a third node can write to Redis")
		beat("third", "a:1", inventory.Standalone)
		enters(true, "once the third node cannot write to Redis")
	})
}

// Entering direct mode raises fence and epoch. The fence stops the old keeper in MySQL, and the
// epoch makes the next keeper rebuild the old gate.
func TestEnteringFencesTheKeeper(t *testing.T) {
	t.Parallel()
	enterings := map[string]func(*testing.T, *bare.Bare){
		"": rightRules.enter,
		"without raising the fence": func(t *testing.T, b *bare.Bare) {
			kit.Exec(t, b.Store.DB, "UPDATE sales SET epoch = epoch + 1, mode = 'direct'")
		},
		"without raising the epoch": func(t *testing.T, b *bare.Bare) {
			kit.Exec(t, b.Store.DB, "UPDATE sales SET fence = fence + 1, mode = 'direct'")
		},
	}
	for broken, enter := range enterings {
		t.Run("entering "+broken, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b := bare.Open(t, s, kit.Sale("S", 10, 10))
				old := b.Keeper(t, "S")
				old.Finish(t)
				b.Reserve(t, "ann", "k", 1)
				queue := b.Queue(t)
				enter(t, b)
				var wrong []string
				if _, err := b.Store.Commit(t.Context(), "S", old.Fence(), queue); !errors.Is(err, orders.ErrFenced) {
					wrong = append(wrong, fmt.Sprint("commit of the old keeper: ", err))
				}
				directly(t, b, "bob", "k", 4)
				b.Keeper(t, "S").Finish(t)
				if mode, a := modeOf(t, b.Store), b.Audit(t); mode != orders.ModeGate || !a.Balanced || a.Sold != 4 { // ann's order in the old queue is dropped
					wrong = append(wrong, fmt.Sprintf("after the next keeper: mode %s, audit %+v", mode, a))
				}
				if (len(wrong) > 0) != (broken != "") {
					t.Errorf("direct mode entered %s: got violations %q, want some only with a broken rule", broken, wrong)
				}
			})
		})
	}
}

// directly places an order in direct mode, and ends the test if the order is refused.
func directly(t testing.TB, b *bare.Bare, buyer, key string, quantity int64) *orders.Order {
	t.Helper()
	d, err := b.Store.CommitDirect(t.Context(), "S", []inventory.QueuedOrder{asked(buyer, key, quantity)})
	if err != nil || d[0].Refused != "" {
		t.Fatalf("direct order of %s: got %+v, error %v, want it accepted", buyer, d, err)
	}
	return d[0].Order
}

// asked returns a new order of S for the queue or for a shared commit.
func asked(buyer, key string, quantity int64) inventory.QueuedOrder {
	return inventory.QueuedOrder{
		OrderID: uuid.Must(uuid.NewV7()).String(), Buyer: buyer, Quantity: quantity, Key: key, Fingerprint: orders.Fingerprint("S", quantity),
	}
}
