package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// soonDirect is a node that enters direct mode at once, and leaves it as soon.
func soonDirect(c *Config) {
	c.Keeper.Lease = time.Second
	c.Direct.After = 100 * time.Millisecond
}

// modeOf reads how the sale S is sold.
func modeOf(t testing.TB, st *store.Store) string {
	t.Helper()
	sale, err := st.Sale(t.Context(), "S")
	check.Must(t, err)
	return sale.Mode
}

// untilMode waits until all nodes know that S is sold in this way.
func untilMode(t testing.TB, mode string, nodes ...*shop) {
	t.Helper()
	check.Eventually(t, "sold by "+mode, func() bool {
		for _, p := range nodes {
			if sale := p.catalog.Known("S"); modeOf(t, p.store) != mode || sale == nil || sale.Mode != mode {
				return false
			}
		}
		return true
	})
}

// The whole contract without Redis, on two nodes, and what is left of it when
// Redis is back.
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
		yes := func(p *shop, buyer, key string, quantity int64) *orders.Order {
			t.Helper()
			answer, err := place(p, buyer, key, quantity)
			if err != nil || answer.Order.Status != orders.PendingPayment {
				t.Fatalf("%s orders %d under %q: %+v, %v", buyer, quantity, key, answer, err)
			}
			return answer.Order
		}
		no := func(want error, p *shop, buyer, key string, quantity int64) {
			t.Helper()
			check.Is(t, check.Err(place(p, buyer, key, quantity)), want)
		}
		replays := func(want *orders.Order) {
			t.Helper()
			again, err := place(a, want.Buyer, *want.IdempotencyKey, want.Quantity)
			if err != nil || !again.Replayed || again.Order.ID != want.ID {
				t.Errorf("replay: %+v, %v", again, err)
			}
		}
		before := yes(a, "ann", "k", 1)

		wire.Cut()
		untilMode(t, orders.ModeDirect, a, b)
		check.Eventually(t, "both nodes are in direct mode", func() bool { return a.Keepers().InDirectMode() && b.Keepers().InDirectMode() })
		if n := a.Keepers().Counters().DirectEntered.Load() + b.Keepers().Counters().DirectEntered.Load(); n != 1 {
			t.Errorf("entered %d times", n)
		}
		first := yes(b, "ann", "l", 2)
		no(inventory.ErrBuyerLimit, a, "ann", "m", 1)
		no(inventory.ErrMismatch, b, "ann", "k", 2)
		bob := yes(a, "bob", "k", 3)
		no(inventory.ErrSoldOut, b, "eve", "", 1)
		replays(before)
		replays(first)
		pays(t, b, "ann", first.ID, "ref", nil)
		cancels(t, b, "bob", bob.ID, nil)
		eve := yes(b, "eve", "k", 1) // of what bob gave back
		if o, err := a.Order(ctx, "eve", uuid.NewString(), "S", "k"); err != nil || o.Buyer != "eve" {
			t.Errorf("an order that is found under its key: %+v, %v", o, err)
		}
		put.Total++
		if _, _, err := a.PutSale(ctx, put); err != nil {
			t.Errorf("restock: %v", err)
		}
		if audit, err := b.Audit(ctx, "S"); err != nil || !audit.Balanced || audit.Sold != 4 || audit.Available+audit.Restoring != 3 {
			t.Errorf("%+v, %v", audit, err)
		}
		check.Eventually(t, "the offer is the database's", func() bool {
			offers, err := b.Offers(ctx)
			return err == nil && len(offers) == 1 && offers[0].Available == 3
		})
		if rows := kit.RowsOf(t, a.store.DB); len(rows) != 4 {
			t.Errorf("%d rows of 4 orders: a refusal left one", len(rows))
		}
		put.OpensAt, put.ClosesAt = put.OpensAt.Add(2*time.Hour), put.ClosesAt.Add(2*time.Hour)
		_, _, _ = a.PutSale(ctx, put)
		no(inventory.ErrNotOpen, a, "joe", "", 1)
		check.OK(t, check.Err(a.EndSale(ctx, "S")))
		no(inventory.ErrClosed, b, "joe", "", 1)
		replays(eve) // after the sale
		_, _, _ = a.PutSale(ctx, kit.Sale("S", 7, 3))

		wire.Restore()
		untilMode(t, orders.ModeGate, a, b)
		a.settledAt(t, 4, 3)
		if a.Keepers().Counters().DirectLeft.Load()+b.Keepers().Counters().DirectLeft.Load() != 1 {
			t.Error("not left once")
		}
		check.Eventually(t, "sold through the gate", func() bool {
			_, err := place(a, "joe", "k", 3)
			return err == nil
		})
		no(inventory.ErrSoldOut, b, "max", "", 1)
		if a.settled(t, "S").Sold != 7 {
			t.Error("not all sold")
		}
	})
}

// A single node that is cut off must not push a gate into being rebuilt that
// the others sell through.
func TestCutOffNodeChangesNothing(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := servertest.RedisVia(t, s)
		named := func(name string) func(*Config) {
			return func(c *Config) {
				soonDirect(c)
				c.Store.Node, c.Keeper.Lease = name, bare.Patience // as long as the healthy node counts as alive
			}
		}
		keeps, other := "a", "b"
		if controller.ShouldKeep([]string{keeps, other}, "S") != keeps {
			keeps, other = other, keeps
		}
		whole := open(t, s, named(keeps))
		whole.put(t, kit.Sale("S", 100, 100))
		cut := open(t, via, named(other))
		check.Eventually(t, "the other node is up", func() bool { return cut.catalog.All() != nil })
		wire.Cut()
		check.Eventually(t, "it has lost Redis", cut.Keepers().RedisDown)
		was, err := whole.store.Sale(t.Context(), "S")
		check.Must(t, err)
		for i := range 20 {
			check.Must(t, cut.Keepers().EnterDirect(t.Context()))
			places(t, whole, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: fmt.Sprint(i)}, nil)
		}
		unchanged := func() bool {
			now, err := whole.store.Sale(t.Context(), "S")
			return err == nil && now.Epoch == was.Epoch && now.Mode == orders.ModeGate
		}
		if !unchanged() || cut.Keepers().InDirectMode() {
			t.Error("the node that is cut off has changed the sale")
		}
		for what, err := range map[string]error{
			"an order":                          check.Err(cut.Place(t.Context(), Placement{Buyer: "bob", SKU: "S", Quantity: 1})),
			"an order that may be in the queue": check.Err(cut.Cancel(t.Context(), "bob", orders.NewOrderID("S"))),
		} {
			if !isUnavailable(err) {
				t.Errorf("on the node that is cut off, %s: %v", what, err)
			}
		}
		// The broken twin: heartbeats don't count.
		if entered, err := bare.EnterDirect(t, cut.store, 0); !entered || err != nil || unchanged() {
			t.Errorf("not caught: %t, %v", entered, err)
		}
	})
}

// Who may enter, by what the heartbeats say.
func TestEnterDirect(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		const alive = time.Minute
		st := bare.OpenStore(t, dsn)
		kit.Put(t, st, kit.Sale("S", 10, 5))
		enters := func(want bool, when string) {
			t.Helper()
			entered, err := bare.EnterDirect(t, st, alive)
			if entered != want || err != nil {
				t.Errorf("%s: %t, %v", when, entered, err)
			}
			again, err := bare.EnterDirect(t, st, alive)
			if again || err != nil {
				t.Errorf("%s, entered twice: %v", when, err)
			}
			kit.Exec(t, st.DB, "UPDATE sales SET mode = 'gate'")
		}
		beat := func(node string, unwritable ...string) {
			t.Helper()
			nodes, err := st.Beat(t.Context(), node, unwritable, alive)
			if err != nil || !slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == node }) {
				t.Fatal(nodes, err)
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
		if nodes, err := st.Beat(t.Context(), "me", []string{inventory.Standalone}, alive); err != nil || len(nodes) != 1 || nodes[0].ID != "me" {
			t.Errorf("alive are %+v, %v", nodes, err)
		}
		beat("keeper", inventory.Standalone)
		enters(true, "once the keeper says that it does not reach Redis")
		beat("third", "a:1", "b:1")
		enters(false, "while another could keep it")
		beat("third", "a:1", inventory.Standalone)
		enters(true, "once that one writes to nothing")
	})
}

// Entering raises fence and epoch: the keeper that there was changes nothing
// any more, in neither store, and the gate that there was is rebuilt.
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
					wrong = append(wrong, fmt.Sprint("the keeper that there was committed: ", err))
				}
				directly(t, b, "bob", "k", 4)
				b.Keeper(t, "S").Finish(t)
				if mode, a := modeOf(t, b.Store), b.Audit(t); mode != orders.ModeGate || !a.Balanced || a.Sold != 4 { // what was in the queue is dropped
					wrong = append(wrong, fmt.Sprintf("the next keeper left it %s, %+v", mode, a))
				}
				if (len(wrong) > 0) != (broken != "") {
					t.Errorf("entering %s: %q", broken, wrong)
				}
			})
		})
	}
}

// direct places an order in direct mode, and wants it to become a row.
func directly(t testing.TB, b *bare.Bare, buyer, key string, quantity int64) *orders.Order {
	t.Helper()
	v, err := b.Store.Direct(t.Context(), "S", []inventory.Queued{asked(buyer, key, quantity)})
	if err != nil || v[0].Refused != "" {
		t.Fatalf("direct order of %s: %+v, %v", buyer, v, err)
	}
	return v[0].Order
}

// asked is an order as a buyer brings it.
func asked(buyer, key string, quantity int64) inventory.Queued {
	return inventory.Queued{
		OrderID: uuid.Must(uuid.NewV7()).String(), Buyer: buyer, Quantity: quantity, Key: key, Fingerprint: orders.Fingerprint("S", quantity),
	}
}

// A shared commit is bounded: a buyer that there is no room for is refused at once, without a
// query. The others share a transaction.
func TestSharedCommitIsBounded(t *testing.T) {
	t.Parallel()
	const buyers = 50
	for _, limit := range []int{8, 2 * buyers} { // the second is the broken twin: no bound
		t.Run(fmt.Sprint("at most ", limit), func(t *testing.T) {
			servertest.EachSQL(t, func(t *testing.T, dsn string) {
				store := bare.OpenStore(t, dsn)
				kit.Put(t, store, kit.Sale("S", 100, 1))
				kit.Exec(t, store.DB, "UPDATE sales SET mode = 'direct'")
				var full atomic.Int64
				busy := make(chan struct{}) // the database is
				l := newSharedCommit(store.Timeout, limit, limit, 1, func(ctx context.Context, sku string, batch []inventory.Queued) ([]orders.Decision, error) {
					<-busy
					return store.Direct(ctx, sku, batch)
				})
				l.refused = &full
				var mu sync.Mutex
				var all sync.WaitGroup
				placed, refused := 0, 0
				for i := range buyers {
					all.Go(func() {
						_, err := l.place(t.Context(), "S", asked(fmt.Sprint("buyer-", i), "k", 1))
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							placed++
						case errors.Is(err, inventory.ErrBusy):
							refused++
						default:
							t.Error(err)
						}
					})
				}
				want := max(0, buyers-limit)
				check.Eventually(t, "all have come", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return l.Len() == buyers-want && refused == want
				})
				close(busy)
				all.Wait()
				if placed != buyers-want || len(kit.RowsOf(t, store.DB)) != placed || full.Load() != int64(want) {
					t.Errorf("%d placed, %d refused", placed, refused)
				}
				if bounded := placed <= 8; bounded != (limit == 8) {
					t.Errorf("%d at once, want at most %d", placed, limit)
				}
			})
		})
	}
}
