package shop

import (
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
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// onPayment is an open sale of total units that takes them on payment.
func onPayment(sku string, total, perBuyer int64) orders.Sale {
	s := kit.Sale(sku, total, perBuyer)
	s.ReserveOn = orders.OnPayment
	return s
}

// order places an order that awaits payment of S and returns its id.
func (p *shop) order(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	placed, err := p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key})
	if err != nil || placed.Order.Status != orders.AwaitingPayment {
		t.Fatalf("order of %s: %+v, %v", buyer, placed.Order, err)
	}
	return placed.Order.ID
}

// onPaymentOn runs a test on each kind of stores.
func onPaymentOn(t *testing.T, test func(t *testing.T, p *shop)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) { test(t, open(t, s, quick)) })
}

// Ordering takes nothing and paying does, once for each order.
func TestReserveOnPayment(t *testing.T) {
	t.Parallel()
	onPaymentOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		p.put(t, onPayment("S", 3, 2))
		ann, bob := p.order(t, "ann", "k", 2), p.order(t, "bob", "k", 2)
		second := p.order(t, "ann", "another", 2) // beyond her limit only once both are paid
		p.settledAt(t, 0, 3)
		for range 2 { // the second is a repetition
			if o, err := p.Pay(ctx, "ann", ann, "one"); err != nil || o.Status != orders.Paid || *o.PaymentRef != "one" {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		pays(t, p, "ann", ann, "two", orders.ErrAlreadyPaid)
		pays(t, p, "eve", bob, "one", orders.ErrNotFound)
		for range 2 {
			pays(t, p, "bob", bob, "one", inventory.ErrSoldOut, orders.AwaitingPayment)
		}
		if got := refundsOf(t, p.store); len(got) > 0 {
			t.Errorf("owed, though nothing was to be charged: %q", got)
		}
		p.put(t, onPayment("S", 6, 2))
		pays(t, p, "ann", second, "one", inventory.ErrBuyerLimit)
		pays(t, p, "bob", bob, "one", nil)
		p.settledAt(t, 4, 2, 4)
		check.Must(t, check.Err(p.Rebuild(ctx, "S")))
		p.settledAt(t, 4, 2, 4)
	})
}

// An order that is closed unpaid gives nothing back, for it took nothing; and
// nobody waits for it to be given back.
func TestOrdersAwaitingPaymentGiveNothingBack(t *testing.T) {
	t.Parallel()
	onPaymentOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		p.put(t, onPayment("S", 2, 2))
		cancelled, expired, late := p.order(t, "ann", "", 2), p.order(t, "bob", "", 2), p.order(t, "eve", "", 2)
		for range 2 {
			if o, err := p.Cancel(ctx, "ann", cancelled); err != nil || o.Status != orders.Cancelled || o.RestoredAt == nil {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		kit.Overdue(t, p.store.DB, expired, late)
		check.Eventually(t, "they expire", func() bool {
			rows := kit.RowsOf(t, p.store.DB)
			return rows[expired].Status == orders.Expired && rows[late].Status == orders.Expired && rows[late].RestoredAt != nil
		})
		p.settledAt(t, 0, 2)
		pays(t, p, "ann", cancelled, "r", orders.ErrOrderClosed)
		pays(t, p, "eve", late, "r", nil)
		pays(t, p, "bob", expired, "r", orders.ErrOrderClosed)
		p.settledAt(t, 2, 0, 2)
		if got := refundsOf(t, p.store); !kit.SameInAnyOrder(got, []string{"ann r cancelled", "bob r sold_out"}) {
			t.Errorf("refunds: %q", got)
		}
	})
}

// What an order hears, and that its key finds it whatever has been sold since.
func TestOrderingOnPayment(t *testing.T) {
	t.Parallel()
	onPaymentOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		put := onPayment("S", 2, 2)
		put.ClosesAt = time.Now().Add(time.Minute) // sooner than the time to pay
		p.put(t, put)
		id := p.order(t, "ann", "k", 2)
		if o := kit.RowsOf(t, p.store.DB)[id]; o.ExpiresAt.After(put.ClosesAt) {
			t.Errorf("to be paid until %v, and the sale ends at %v", o.ExpiresAt, put.ClosesAt)
		}
		if text := p.shown(t, id); !strings.Contains(text, `"status":"pending_payment"`) {
			t.Errorf("shown as %s", text)
		}
		pays(t, p, "bob", p.order(t, "bob", "", 2), "r", nil)
		check.Eventually(t, "it is known to be sold out", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrSoldOut)
		})
		again, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"})
		if err != nil || !again.Replayed || again.Order.ID != id {
			t.Errorf("repeated: %+v, %v", again, err)
		}
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}, inventory.ErrMismatch)
		put.Total = 9
		p.put(t, put)
		check.Eventually(t, "there are more", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrBuyerLimit)
		})
		put.ClosesAt = put.OpensAt.Add(time.Minute)
		p.put(t, put)
		pays(t, p, "ann", id, "r", inventory.ErrClosed, orders.AwaitingPayment)
		check.Eventually(t, "orders are refused after the sale", func() bool { // a node may still remember that the sale is sold out
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrClosed)
		})
	})
}

func (p *shop) shown(t testing.TB, id string) string {
	t.Helper()
	o := kit.RowsOf(t, p.store.DB)[id]
	text, err := json.Marshal(o.JSON())
	check.Must(t, err)
	return string(text)
}

// A sale may change when it takes units at any time: each order goes on as it
// began.
func TestReserveOnChanges(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, ctx := open(t, s, quick), t.Context()
		p.cfg.Wait = 50 * time.Millisecond
		p.put(t, onPayment("S", 5, 5))
		awaiting := p.order(t, "ann", "k", 2)
		if _, err := p.store.PutSale(ctx, kit.Sale("S", 5, 5)); err != nil { // this node has not read it yet
			t.Fatal(err)
		}
		var held Placed
		check.Eventually(t, "bob holds units", func() bool { // not before the gate is replaced, because orders of the old gate never become durable
			var err error
			held, err = p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 3, Key: "k"})
			return err == nil && held.Order.Status == orders.PendingPayment
		})
		p.cfg.Wait = bare.Patience
		if o := places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}, nil).Order; o.ID != awaiting {
			t.Errorf("repeated: %+v", o)
		}
		p.settledAt(t, 3, 2)
		p.put(t, onPayment("S", 5, 5))
		for buyer, id := range map[string]string{"ann": awaiting, "bob": held.Order.ID} {
			pays(t, p, buyer, id, "r", nil)
		}
		p.dropped(t)
		p.settledAt(t, 5, 0, 5)
	})
}

// A crowd orders and pays at once, each with two references, twice each, on two
// nodes: never more is paid than there is, all of it can be had, everybody who
// heard yes has the order, and none has two.
func TestCrowdPaysAtOnce(t *testing.T) {
	t.Parallel()
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
				placed, err := untilKnown(t, func() (Placed, error) {
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
						o, err := untilKnown(t, func() (*orders.Order, error) { return nodes[k/2].Pay(ctx, buyer, placed.Order.ID, ref) })
						switch {
						case err == nil && o.Status == orders.Paid:
							told.Store(ref, true)
						case errors.Is(err, inventory.ErrSoldOut), errors.Is(err, inventory.ErrBuyerLimit), errors.Is(err, orders.ErrAlreadyPaid):
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
					if !o.PaidBy(ref.(string)) {
						t.Errorf("%s was told yes for %v, and has %+v", buyer, ref, o)
					}
					return true
				})
			})
		}
		all.Wait()
		// Whoever was refused while a second payment held units may try again.
		again := 0
		check.Eventually(t, "all units are sold", func() bool {
			again++
			buyer := fmt.Sprint("again-", again)
			if placed, err := p.Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: 1}); err == nil {
				if _, err := untilKnown(t, func() (*orders.Order, error) { return p.Pay(ctx, buyer, placed.Order.ID, "r") }); err == nil {
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
