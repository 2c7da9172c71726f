package orders

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// soonDirect is a node that goes the direct way at once, and leaves it as soon.
func soonDirect(c *Config) {
	brief(c)
	c.Keeper.Lease = time.Second
	c.Direct.After = 100 * time.Millisecond
}

// modeOf reads how the sale S is sold.
func modeOf(t testing.TB, store *Store) string {
	t.Helper()
	sale, err := store.Sale(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	return sale.Mode
}

// untilMode waits until all nodes know that S is sold in this way.
func untilMode(t testing.TB, mode string, nodes ...*shop) {
	t.Helper()
	eventually(t, "sold by "+mode, func() bool {
		for _, p := range nodes {
			if modeOf(t, p.store) != mode || p.catalog.direct("S") != (mode == modeDirect) {
				return false
			}
		}
		return true
	})
}

// The whole contract without Redis, on two nodes, and what is left of it when
// Redis is back.
func TestDirectWay(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := redisVia(t, s)
		a, b := open(t, via, soonDirect), open(t, via, soonDirect)
		ctx := t.Context()
		put := sale("S", 6, 3)
		a.put(t, put)
		place := func(p *shop, buyer, key string, quantity int64) (Placed, error) {
			return p.Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key})
		}
		yes := func(p *shop, buyer, key string, quantity int64) *Order {
			t.Helper()
			answer, err := place(p, buyer, key, quantity)
			if err != nil || answer.Order.Status != PendingPayment {
				t.Fatalf("%s orders %d under %q: %+v, %v", buyer, quantity, key, answer, err)
			}
			return answer.Order
		}
		no := func(want error, p *shop, buyer, key string, quantity int64) {
			t.Helper()
			if _, err := place(p, buyer, key, quantity); !errors.Is(err, want) {
				t.Errorf("%s orders %d under %q: %v, want %v", buyer, quantity, key, err, want)
			}
		}
		before := yes(a, "ann", "k", 1)

		wire.cut()
		untilMode(t, modeDirect, a, b)
		if !a.SellsDirect() || !b.SellsDirect() || a.Counters().DirectEntered.Load()+b.Counters().DirectEntered.Load() != 1 {
			t.Error("not entered once")
		}
		first := yes(b, "ann", "l", 2)
		no(inventory.ErrBuyerLimit, a, "ann", "m", 1)
		no(inventory.ErrMismatch, b, "ann", "k", 2)
		bob := yes(a, "bob", "", 3)
		no(inventory.ErrSoldOut, b, "eve", "", 1)
		for _, want := range []*Order{before, first} {
			again, err := place(a, "ann", *want.IdempotencyKey, want.Quantity)
			if err != nil || !again.Replayed || again.Order.ID != want.ID {
				t.Errorf("replay: %+v, %v", again, err)
			}
		}
		if o, err := b.Pay(ctx, "ann", first.ID, "ref"); err != nil || o.Status != Paid {
			t.Errorf("pay: %+v, %v", o, err)
		}
		if o, err := b.Cancel(ctx, "bob", bob.ID); err != nil || o.Status != Cancelled {
			t.Errorf("cancel: %+v, %v", o, err)
		}
		yes(b, "eve", "k", 1) // of what bob gave back
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
		eventually(t, "the offer is the database's", func() bool {
			offers, err := b.Offers(ctx)
			return err == nil && len(offers) == 1 && offers[0].Available == 3
		})
		if rows := rowsOf(t, a.store); len(rows) != 4 {
			t.Errorf("%d rows of 4 orders: a refusal left one", len(rows))
		}
		put.OpensAt, put.ClosesAt = put.OpensAt.Add(2*time.Hour), put.ClosesAt.Add(2*time.Hour)
		_, _, _ = a.PutSale(ctx, put)
		no(inventory.ErrNotOpen, a, "joe", "", 1)
		put.OpensAt, put.ClosesAt = put.OpensAt.Add(-4*time.Hour), put.ClosesAt.Add(-4*time.Hour)
		_, _, _ = a.PutSale(ctx, put)
		no(inventory.ErrClosed, b, "joe", "", 1)
		if again, err := place(a, "eve", "k", 1); err != nil || !again.Replayed {
			t.Errorf("replay after the sale: %+v, %v", again, err)
		}
		_, _, _ = a.PutSale(ctx, sale("S", 7, 3))

		wire.restore()
		untilMode(t, modeGate, a, b)
		if audit := a.settled(t, "S"); audit.Sold != 4 || audit.Available != 3 {
			t.Errorf("%+v", audit)
		}
		if a.Counters().DirectLeft.Load()+b.Counters().DirectLeft.Load() != 1 {
			t.Error("not left once")
		}
		eventually(t, "sold through the gate", func() bool {
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
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := redisVia(t, s)
		named := func(name string) func(*Config) {
			return func(c *Config) {
				soonDirect(c)
				c.Node, c.Keeper.Lease = name, 10*time.Second // however busy the machine is, the healthy one is alive
			}
		}
		keeps, other := "a", "b"
		if shouldKeep([]string{keeps, other}, "S") != keeps {
			keeps, other = other, keeps
		}
		whole := open(t, s, named(keeps))
		whole.put(t, sale("S", 100, 100))
		cut := open(t, via, named(other))
		eventually(t, "the other node is up", func() bool { return cut.catalog.cur.Load() != nil })
		wire.cut()
		eventually(t, "it has lost Redis", cut.link.isLost)
		was, err := whole.store.Sale(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if err := cut.direct.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			answer, err := whole.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: fmt.Sprint(i)})
			if err != nil {
				t.Fatalf("on the healthy node: %+v, %v", answer, err)
			}
		}
		unchanged := func() bool {
			now, err := whole.store.Sale(t.Context(), "S")
			return err == nil && now.Epoch == was.Epoch && now.Mode == modeGate
		}
		if !unchanged() || cut.SellsDirect() {
			t.Error("the node that is cut off has changed the sale")
		}
		if _, err := cut.Place(t.Context(), Placement{Buyer: "bob", SKU: "S", Quantity: 1}); !isUnavailable(err) {
			t.Errorf("on the node that is cut off: %v", err)
		}
		// The broken twin: heartbeats don't count.
		if entered, err := cut.store.EnterDirect(t.Context(), "S", 0); !entered || err != nil || unchanged() {
			t.Errorf("not caught: %t, %v", entered, err)
		}
	})
}

// Who may enter, by what the heartbeats say.
func TestEnterDirect(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		const alive = time.Minute
		store := openStore(t, dsn)
		if _, err := store.PutSale(t.Context(), sale("S", 10, 5)); err != nil {
			t.Fatal(err)
		}
		enters := func(want bool, when string) {
			t.Helper()
			reached, err := store.redisReached(t.Context(), alive)
			if err != nil || reached == want {
				t.Errorf("%s: reached %t, %v", when, reached, err)
			}
			entered, err := store.EnterDirect(t.Context(), "S", alive)
			if entered != want || err != nil {
				t.Errorf("%s: %t, %v", when, entered, err)
			}
			again, err := store.EnterDirect(t.Context(), "S", alive)
			if again || err != nil {
				t.Errorf("%s, entered twice: %v", when, err)
			}
			exec(t, store, "UPDATE sales SET mode = 'gate'")
		}
		beat := func(node string, redis bool) {
			t.Helper()
			if _, err := store.Beat(t.Context(), node, redis, alive); err != nil {
				t.Fatal(err)
			}
		}
		beat("me", false)
		beat("keeper", true)
		enters(false, "while the keeper reaches Redis")
		exec(t, store, "UPDATE nodes SET seen_at = ? WHERE id = 'keeper'", clockOf(t, store).Add(-alive/2))
		enters(false, "while the keeper may be slow")
		exec(t, store, "UPDATE nodes SET seen_at = ? WHERE id = 'keeper'", clockOf(t, store).Add(-2*alive))
		enters(true, "once the keeper is dead")
		beat("keeper", false)
		enters(true, "once the keeper says that it does not reach Redis")
		beat("third", true)
		enters(false, "while another could keep it")
	})
}

// Entering raises fence and epoch: the keeper that there was changes nothing
// any more, in neither store, and the gate that there was is rebuilt.
func TestEnteringFencesTheKeeper(t *testing.T) {
	enterings := map[string]func(*testing.T, *bare){
		"": func(t *testing.T, b *bare) {
			if entered, err := b.store.EnterDirect(t.Context(), "S", time.Minute); !entered || err != nil {
				t.Fatal(entered, err)
			}
		},
		"without raising the fence": func(t *testing.T, b *bare) {
			exec(t, b.store, "UPDATE sales SET epoch = epoch + 1, mode = 'direct'")
		},
		"without raising the epoch": func(t *testing.T, b *bare) {
			exec(t, b.store, "UPDATE sales SET fence = fence + 1, mode = 'direct'")
		},
	}
	for broken, enter := range enterings {
		t.Run("entering "+broken, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b := openBare(t, s, sale("S", 10, 10))
				old := b.keeper(t, "S")
				old.finish(t)
				b.reserve(t, "ann", "k", 1)
				queue := b.queue(t)
				enter(t, b)
				var wrong []string
				if _, err := b.store.Commit(t.Context(), "S", old.fence, queue); !errors.Is(err, ErrFenced) {
					wrong = append(wrong, fmt.Sprint("the keeper that there was committed: ", err))
				}
				b.direct(t, "bob", "k", 4)
				b.keeper(t, "S").finish(t)
				if mode, a := modeOf(t, b.store), b.audit(t); mode != modeGate || !a.Balanced || a.Sold != 5 {
					wrong = append(wrong, fmt.Sprintf("the next keeper left it %s, %+v", mode, a))
				}
				if (len(wrong) > 0) != (broken != "") {
					t.Errorf("entering %s: %q", broken, wrong)
				}
			})
		})
	}
}

// direct places an order the direct way, and wants it to become a row.
func (b *bare) direct(t testing.TB, buyer, key string, quantity int64) *Order {
	t.Helper()
	v, err := b.store.Direct(t.Context(), "S", []inventory.Queued{asked(buyer, key, quantity)})
	if err != nil || v[0].refused != "" {
		t.Fatalf("direct order of %s: %+v, %v", buyer, v, err)
	}
	return v[0].order
}

// asked is an order as a buyer brings it.
func asked(buyer, key string, quantity int64) inventory.Queued {
	p := Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key}
	return inventory.Queued{
		OrderID: uuid.Must(uuid.NewV7()).String(), Buyer: buyer, Quantity: quantity, Key: key, Fingerprint: p.fingerprint(),
	}
}

// A direct order that comes when the gate is open again is refused: the gate
// knows nothing of it, and would sell its units a second time.
func TestLateDirectOrderIsRefused(t *testing.T) {
	commits := map[string]func(*Store, *testing.T, []inventory.Queued) ([]verdict, error){
		"": func(s *Store, t *testing.T, batch []inventory.Queued) ([]verdict, error) {
			return s.Direct(t.Context(), "S", batch)
		},
		"not conditional on the mode": func(s *Store, t *testing.T, batch []inventory.Queued) ([]verdict, error) {
			return s.commitUngated(t.Context(), "S", batch, ungated, func(*lockedSale) error { return nil })
		},
	}
	for broken, commit := range commits {
		t.Run("an order "+broken, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b := openBare(t, s, sale("S", 10, 10))
				if entered, err := b.store.EnterDirect(t.Context(), "S", time.Minute); !entered || err != nil {
					t.Fatal(entered, err)
				}
				b.direct(t, "ann", "", 1)
				b.keeper(t, "S").finish(t)
				_, err := commit(b.store, t, []inventory.Queued{asked("bob", "", 2)})
				a := b.audit(t)
				if right := errors.Is(err, errNotDirect) && a.Balanced && a.Sold == 1; right != (broken == "") {
					t.Errorf("%v, %+v", err, a)
				}
			})
		})
	}
}

// What is in the queue of a Redis that was only out of reach is judged against
// what was sold without it, and an order that went both ways is one.
func TestQueueSurvivesTheDirectWay(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 5, 3))
		twice, over, fits := b.reserve(t, "ann", "k", 2), b.reserve(t, "bob", "k", 2), b.reserve(t, "joe", "k", 1)
		if entered, err := b.store.EnterDirect(t.Context(), "S", time.Minute); !entered || err != nil {
			t.Fatal(entered, err)
		}
		first := b.direct(t, "ann", "k", 2)
		b.direct(t, "eve", "", 2)
		b.keeper(t, "S").finish(t)
		rows := b.rows(t)
		if _, ok := rows[twice]; ok || rows[first.ID].Status != PendingPayment {
			t.Errorf("two orders of one key: %+v", rows)
		}
		if rows[over].Status != Rejected || rows[over].Reason != "sold_out" || rows[fits].Status != PendingPayment {
			t.Errorf("of the queue: %+v, %+v", rows[over], rows[fits])
		}
		if a := b.audit(t); !a.Balanced || a.Sold != 5 || a.Available != 0 {
			t.Errorf("%+v", a)
		}
	})
}

// The line is bounded: whoever finds it full hears so at once, and the
// database is not asked. Those in it share a transaction.
func TestDirectLineIsBounded(t *testing.T) {
	const buyers = 50
	for _, line := range []int{8, 2 * buyers} { // the second is the broken twin: no bound
		t.Run(fmt.Sprint("a line of ", line), func(t *testing.T) {
			servertest.EachSQL(t, func(t *testing.T, dsn string) {
				store := openStore(t, dsn)
				if _, err := store.PutSale(t.Context(), sale("S", 100, 1)); err != nil {
					t.Fatal(err)
				}
				exec(t, store, "UPDATE sales SET mode = 'direct'")
				d := &directWay{store: store, count: new(Counters)}
				d.line = newLine(line, line, 1, d.commit)
				d.line.full = &d.count.DirectRefused
				d.line.turns <- struct{}{} // the database is busy
				var mu sync.Mutex
				var all sync.WaitGroup
				placed, refused := 0, 0
				for i := range buyers {
					all.Go(func() {
						_, err := d.line.place(t.Context(), "S", asked(fmt.Sprint("buyer-", i), "k", 1))
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
				want := max(0, buyers-line)
				eventually(t, "all have come", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return d.line.inLine.Load() == int64(buyers-want) && refused == want
				})
				<-d.line.turns
				all.Wait()
				if placed != buyers-want || len(rowsOf(t, store)) != placed || d.count.DirectRefused.Load() != int64(want) {
					t.Errorf("%d placed, %d refused", placed, refused)
				}
				if bounded := placed <= 8; bounded != (line == 8) {
					t.Errorf("%d at once, with a line of %d", placed, line)
				}
			})
		})
	}
}
