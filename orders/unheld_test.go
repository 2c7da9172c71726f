package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// onPayment is an open sale of total units that takes them on payment.
func onPayment(sku string, total, perBuyer int64) Sale {
	s := sale(sku, total, perBuyer)
	s.ReserveOn = OnPayment
	return s
}

// order places an unheld order of S and returns its id.
func (p *shop) order(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	placed, err := p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key})
	if err != nil || placed.Order.Status != Unheld {
		t.Fatalf("order of %s: %+v, %v", buyer, placed.Order, err)
	}
	return placed.Order.ID
}

// unheldOn runs a test on a node that sells through gate and keeper, and on one
// that locks per order: what a buyer hears is the same.
func unheldOn(t *testing.T, test func(t *testing.T, p *shop)) {
	for strategy, perOrder := range map[string]bool{"keeper": false, "lock per order": true} {
		t.Run(strategy, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				test(t, open(t, s, func(c *Config) {
					quick(c)
					c.PerOrder = perOrder
				}))
			})
		})
	}
}

// Ordering takes nothing and paying does, once for each order.
func TestReserveOnPayment(t *testing.T) {
	unheldOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		p.put(t, onPayment("S", 3, 2))
		ann, bob := p.order(t, "ann", "k", 2), p.order(t, "bob", "k", 2)
		second := p.order(t, "ann", "another", 2) // beyond her limit only once both are paid
		if a := p.settled(t, "S"); a.Sold != 0 || a.Available != 3 {
			t.Errorf("ordered: %+v", a)
		}
		for range 2 { // the second is a repetition
			if o, err := p.Pay(ctx, "ann", ann, "one"); err != nil || o.Status != Paid || *o.PaymentRef != "one" {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		if _, err := p.Pay(ctx, "ann", ann, "two"); !errors.Is(err, ErrAlreadyPaid) {
			t.Errorf("another payment: %v", err)
		}
		if _, err := p.Pay(ctx, "eve", bob, "one"); !errors.Is(err, ErrNotFound) {
			t.Errorf("somebody else's: %v", err)
		}
		for range 2 {
			if o, err := p.Pay(ctx, "bob", bob, "one"); !errors.Is(err, inventory.ErrSoldOut) || o.Status != Unheld {
				t.Errorf("2 of the 1 that is left: %+v, %v", o, err)
			}
		}
		if got := refundsOf(t, p.store); len(got) > 0 {
			t.Errorf("owed, though nothing was to be charged: %q", got)
		}
		p.put(t, onPayment("S", 6, 2))
		if _, err := p.Pay(ctx, "ann", second, "one"); !errors.Is(err, inventory.ErrBuyerLimit) {
			t.Errorf("beyond the limit: %v", err)
		}
		if o, err := p.Pay(ctx, "bob", bob, "one"); err != nil || o.Status != Paid {
			t.Errorf("after a restock: %+v, %v", o, err)
		}
		if a := p.settled(t, "S"); a.Paid != 4 || a.Sold != 4 || a.Available != 2 {
			t.Errorf("paid: %+v", a)
		}
		if _, err := p.Rebuild(ctx, "S"); err != nil {
			t.Fatal(err)
		}
		if a := p.settled(t, "S"); a.Paid != 4 || a.Available != 2 {
			t.Errorf("rebuilt: %+v", a)
		}
	})
}

// An order that is closed unpaid gives nothing back, for it took nothing; and
// nobody waits for it to be given back.
func TestUnheldOrdersGiveNothingBack(t *testing.T) {
	unheldOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		p.put(t, onPayment("S", 2, 2))
		cancelled, expired, late := p.order(t, "ann", "", 2), p.order(t, "bob", "", 2), p.order(t, "eve", "", 2)
		for range 2 {
			if o, err := p.Cancel(ctx, "ann", cancelled); err != nil || o.Status != Cancelled || o.RestoredAt == nil {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		overdue(t, p.store, expired, late)
		eventually(t, "they expire", func() bool {
			rows := rowsOf(t, p.store)
			return rows[expired].Status == Expired && rows[late].Status == Expired && rows[late].RestoredAt != nil
		})
		if a := p.settled(t, "S"); a.Sold != 0 || a.Available != 2 {
			t.Errorf("closed: %+v", a)
		}
		if _, err := p.Pay(ctx, "ann", cancelled, "r"); !errors.Is(err, ErrOrderClosed) {
			t.Errorf("a cancelled one: %v", err)
		}
		if o, err := p.Pay(ctx, "eve", late, "r"); err != nil || o.Status != Paid {
			t.Errorf("late, while there are units: %+v, %v", o, err)
		}
		if _, err := p.Pay(ctx, "bob", expired, "r"); !errors.Is(err, ErrOrderClosed) {
			t.Errorf("late, when there are none: %v", err)
		}
		if a := p.settled(t, "S"); a.Paid != 2 || a.Available != 0 {
			t.Errorf("paid late: %+v", a)
		}
		if got := refundsOf(t, p.store); !sameInAnyOrder(got, []string{"ann r cancelled", "bob r sold_out"}) {
			t.Errorf("refunds: %q", got)
		}
	})
}

// What an order hears, and that its key finds it whatever has been sold since.
func TestOrderingUnheld(t *testing.T) {
	unheldOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		put := onPayment("S", 2, 2)
		put.ClosesAt = time.Now().Add(time.Minute) // sooner than the time to pay
		p.put(t, put)
		id := p.order(t, "ann", "k", 2)
		if o := rowsOf(t, p.store)[id]; o.ExpiresAt.After(put.ClosesAt) {
			t.Errorf("to be paid until %v, and the sale ends at %v", o.ExpiresAt, put.ClosesAt)
		}
		if text := p.shown(t, id); !strings.Contains(text, `"status":"pending_payment"`) {
			t.Errorf("shown as %s", text)
		}
		if _, err := p.Pay(ctx, "bob", p.order(t, "bob", "", 2), "r"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is known to be sold out", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrSoldOut)
		})
		again, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"})
		if err != nil || !again.Replayed || again.Order.ID != id {
			t.Errorf("repeated: %+v, %v", again, err)
		}
		if _, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}); !errors.Is(err, inventory.ErrMismatch) {
			t.Errorf("another body under the key: %v", err)
		}
		put.Total = 9
		p.put(t, put)
		eventually(t, "there are more", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrBuyerLimit)
		})
		put.ClosesAt = put.OpensAt.Add(time.Minute)
		p.put(t, put)
		if o, err := p.Pay(ctx, "ann", id, "r"); !errors.Is(err, inventory.ErrClosed) || o.Status != Unheld {
			t.Errorf("paid after the sale: %+v, %v", o, err)
		}
		eventually(t, "nobody may order after the sale", func() bool { // sold out may be remembered for a moment
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrClosed)
		})
	})
}

func (p *shop) shown(t testing.TB, id string) string {
	t.Helper()
	o := rowsOf(t, p.store)[id]
	text, err := json.Marshal(&o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A sale may change when it takes units at any time: each order goes on as it
// began.
func TestReserveOnChanges(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, ctx := open(t, s, quick), t.Context()
		p.put(t, onPayment("S", 5, 5))
		unheld := p.order(t, "ann", "k", 2)
		if _, err := p.store.PutSale(ctx, sale("S", 5, 5)); err != nil { // this node has not read it yet
			t.Fatal(err)
		}
		held, err := p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 3, Key: "k"})
		if err != nil || held.Order.Status != PendingPayment {
			t.Fatalf("%+v, %v", held.Order, err)
		}
		if again, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}); err != nil || again.Order.ID != unheld {
			t.Errorf("repeated: %+v, %v", again.Order, err)
		}
		if a := p.settled(t, "S"); a.Sold != 3 || a.Available != 2 {
			t.Errorf("%+v", a)
		}
		p.put(t, onPayment("S", 5, 5))
		for buyer, id := range map[string]string{"ann": unheld, "bob": held.Order.ID} {
			if _, err := p.Pay(ctx, buyer, id, "r"); err != nil {
				t.Errorf("%s: %v", buyer, err)
			}
		}
		p.dropped(t)
		if a := p.settled(t, "S"); a.Paid != 5 || a.Available != 0 {
			t.Errorf("%+v", a)
		}
	})
}

// untilKnown asks as a client does that asks again while it does not know.
func untilKnown[T any](ask func() (T, error)) (answer T, err error) {
	for deadline := time.Now().Add(30 * time.Second); ; {
		answer, err = ask()
		unknown := errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		if !unknown || time.Now().After(deadline) {
			return answer, err
		}
	}
}

// A crowd orders and pays at once, each with two references, twice each, on two
// nodes: never more is paid than there is, all of it can be had, everybody who
// heard yes has the order, and none has two.
func TestCrowdPaysAtOnce(t *testing.T) {
	const total = 20
	buyers := 80
	if testing.Short() || servertest.Race {
		buyers = 40
	}
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, quick), open(t, s, quick)}
		p, ctx := nodes[0], t.Context()
		p.put(t, onPayment("S", total, 1))
		var all sync.WaitGroup
		var yes atomic.Int64
		for i := range buyers {
			all.Go(func() {
				buyer := fmt.Sprint("buyer-", i)
				placed, err := untilKnown(func() (Placed, error) {
					return nodes[i%2].Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: 1, Key: "k"})
				})
				if errors.Is(err, inventory.ErrSoldOut) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				var told sync.Map // references that heard yes
				var payments sync.WaitGroup
				for k := range 4 {
					ref := fmt.Sprint(k % 2)
					payments.Go(func() {
						o, err := untilKnown(func() (*Order, error) { return nodes[k/2].Pay(ctx, buyer, placed.Order.ID, ref) })
						switch {
						case err == nil && o.Status == Paid:
							told.Store(ref, true)
						case errors.Is(err, inventory.ErrSoldOut), errors.Is(err, inventory.ErrBuyerLimit), errors.Is(err, ErrAlreadyPaid):
						default:
							t.Errorf("%+v, %v", o, err)
						}
					})
				}
				payments.Wait()
				o, err := p.store.OrderOf(ctx, buyer, placed.Order.ID)
				if err != nil {
					t.Error(err)
					return
				}
				told.Range(func(ref, _ any) bool {
					yes.Add(1)
					if !o.paidBy(ref.(string)) {
						t.Errorf("%s was told yes for %v, and has %+v", buyer, ref, o)
					}
					return true
				})
			})
		}
		all.Wait()
		// Whoever was refused while a second payment held units may try again.
		again := 0
		eventually(t, "all units are sold", func() bool {
			again++
			buyer := fmt.Sprint("again-", again)
			if placed, err := p.Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: 1}); err == nil {
				if _, err := untilKnown(func() (*Order, error) { return p.Pay(ctx, buyer, placed.Order.ID, "r") }); err == nil {
					yes.Add(1)
				}
			}
			sale, err := p.store.Sale(ctx, "S")
			return err == nil && sale.Sold >= total
		})
		p.dropped(t)
		a := p.settled(t, "S")
		if a.Paid != total || a.Sold != total || a.Available != 0 || yes.Load() != total {
			t.Errorf("%d were told yes, of %d units: %+v", yes.Load(), total, a)
		}
	})
}
