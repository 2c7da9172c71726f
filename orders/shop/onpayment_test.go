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

// onPayment returns an open sale whose orders take units on payment.
func onPayment(sku string, total, perBuyer int64) orders.Sale {
	s := kit.Sale(sku, total, perBuyer)
	s.ReserveOn = orders.OnPayment
	return s
}

// order places an order of S that awaits payment, and returns its id.
func (p *shop) order(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	placed, err := p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key})
	if err != nil || placed.Order.Status != orders.AwaitingPayment {
		t.Fatalf("order of %s: got %+v, error %v, want it accepted", buyer, placed.Order, err)
	}
	return placed.Order.ID
}

// onPaymentOn runs a test with a node on each kind of stores.
func onPaymentOn(t *testing.T, test func(t *testing.T, p *shop)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) { test(t, open(t, s, quick)) })
}

// An order takes no units. Its payment takes them, once.
func TestReserveOnPayment(t *testing.T) {
	t.Parallel()
	onPaymentOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		p.put(t, onPayment("S", 3, 2))
		ann, bob := p.order(t, "ann", "k", 2), p.order(t, "bob", "k", 2)
		second := p.order(t, "ann", "another", 2) // both of ann's orders together exceed her limit
		p.settledAt(t, 0, 3)
		for range 2 { // the second payment repeats the first
			if o, err := p.Pay(ctx, "ann", ann, "one"); err != nil || o.Status != orders.Paid || *o.PaymentRef != "one" {
				t.Fatalf("payment: got %+v, error %v, want a paid order", o, err)
			}
		}
		pays(t, p, "ann", ann, "two", orders.ErrAlreadyPaid)
		pays(t, p, "eve", bob, "one", orders.ErrNotFound)
		for range 2 {
			pays(t, p, "bob", bob, "one", inventory.ErrSoldOut, orders.AwaitingPayment)
		}
		if got := refundsOf(t, p.store); len(got) > 0 {
			t.Errorf("refund claims: got %q, want none for orders that stay open", got)
		}
		p.put(t, onPayment("S", 6, 2))
		pays(t, p, "ann", second, "one", inventory.ErrBuyerLimit)
		pays(t, p, "bob", bob, "one", nil)
		p.settledAt(t, 4, 2, 4)
		check.Must(t, check.Err(p.Rebuild(ctx, "S")))
		p.settledAt(t, 4, 2, 4)
	})
}

// Cancelling or expiring an order that awaits payment releases no units, because the order has
// taken none. The row needs no release.
func TestClosedOrdersAwaitingPaymentReleaseNothing(t *testing.T) {
	t.Parallel()
	onPaymentOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		p.put(t, onPayment("S", 2, 2))
		cancelled, expired, late := p.order(t, "ann", "", 2), p.order(t, "bob", "", 2), p.order(t, "eve", "", 2)
		for range 2 {
			if o, err := p.Cancel(ctx, "ann", cancelled); err != nil || o.Status != orders.Cancelled || o.RestoredAt == nil {
				t.Fatalf("cancel: got %+v, error %v, want a cancelled order with restored_at", o, err)
			}
		}
		kit.MakeOverdue(t, p.store.DB, expired, late)
		check.Eventually(t, "both orders expire", func() bool {
			rows := kit.RowsOf(t, p.store.DB)
			return rows[expired].Status == orders.Expired && rows[late].Status == orders.Expired && rows[late].RestoredAt != nil
		})
		p.settledAt(t, 0, 2)
		pays(t, p, "ann", cancelled, "r", orders.ErrOrderClosed)
		pays(t, p, "eve", late, "r", nil)
		pays(t, p, "bob", expired, "r", orders.ErrOrderClosed)
		p.settledAt(t, 2, 0, 2)
		if got := refundsOf(t, p.store); !kit.SameInAnyOrder(got, []string{"ann r cancelled", "bob r sold_out"}) {
			t.Errorf("refund claims: got %q, want ann's for the cancelled and bob's for the late order", got)
		}
	})
}

// Orders that take no units are refused once the sale is sold out or over. A replay finds its
// order even then.
func TestOrderingOnPayment(t *testing.T) {
	t.Parallel()
	onPaymentOn(t, func(t *testing.T, p *shop) {
		ctx := t.Context()
		put := onPayment("S", 2, 2)
		put.ClosesAt = time.Now().Add(time.Minute) // before the end of the payment window
		p.put(t, put)
		id := p.order(t, "ann", "k", 2)
		if o := kit.RowsOf(t, p.store.DB)[id]; o.ExpiresAt.After(put.ClosesAt) {
			t.Errorf("order on payment: got expiry at %v, want at %v, the end of the sale", o.ExpiresAt, put.ClosesAt)
		}
		if text := p.shown(t, id); !strings.Contains(text, `"status":"pending_payment"`) {
			t.Errorf("JSON of the order: got %s, want status pending_payment", text)
		}
		pays(t, p, "bob", p.order(t, "bob", "", 2), "r", nil)
		check.Eventually(t, "orders are refused as sold out", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrSoldOut)
		})
		replay, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"})
		if err != nil || !replay.Replayed || replay.Order.ID != id {
			t.Errorf("replay: got %+v, error %v, want order %s", replay, err, id)
		}
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}, inventory.ErrMismatch)
		put.Total = 9
		p.put(t, put)
		check.Eventually(t, "the node has read the new total", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 1})
			return errors.Is(err, inventory.ErrBuyerLimit)
		})
		put.ClosesAt = put.OpensAt.Add(time.Minute)
		p.put(t, put)
		pays(t, p, "ann", id, "r", inventory.ErrClosed, orders.AwaitingPayment)
		check.Eventually(t, "orders are refused after the sale", func() bool { // the node may still remember "sold out"
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

// reserve_on of a sale may change at any time. Each order keeps the way in which it was placed.
func TestReserveOnChanges(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, ctx := open(t, s, quick), t.Context()
		p.cfg.Wait = 50 * time.Millisecond
		p.put(t, onPayment("S", 5, 5))
		awaiting := p.order(t, "ann", "k", 2)
		if _, err := p.store.PutSale(ctx, kit.Sale("S", 5, 5)); err != nil { // this node has not read the changed sale yet
			t.Fatalf("put the sale: got error %v, want none", err)
		}
		var held Placed
		check.Eventually(t, "bob holds units", func() bool { // fails until the gate is replaced, because orders of the old gate are not committed
			var err error
			held, err = p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 3, Key: "k"})
			return err == nil && held.Order.Status == orders.PendingPayment
		})
		p.cfg.Wait = bare.Patience
		if o := places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}, nil).Order; o.ID != awaiting {
			t.Errorf("replay: got %+v, want order %s", o, awaiting)
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

// Many buyers order and pay at once on two nodes. Each sends two payments with different
// references, and repeats both. Every accepted payment has paid its order, no order is paid
// twice, and all units are sold but no more.
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
		var accepted atomic.Int64
		for i := range buyers {
			all.Go(func() {
				buyer := fmt.Sprint("buyer-", i)
				placed, err := untilKnown(t, func() (Placed, error) {
					return nodes[i%2].Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: 1, Key: "k"})
				})
				if errors.Is(err, inventory.ErrSoldOut) {
					return
				} else if err != nil {
					t.Errorf("order of a buyer: got error %v, want none", err)
					return
				}
				var paidBy sync.Map // references of accepted payments
				var payments sync.WaitGroup
				for k := range 4 {
					ref := fmt.Sprint(k % 2)
					payments.Go(func() {
						o, err := untilKnown(t, func() (*orders.Order, error) { return nodes[k/2].Pay(ctx, buyer, placed.Order.ID, ref) })
						switch {
						case err == nil && o.Status == orders.Paid:
							paidBy.Store(ref, true)
						case errors.Is(err, inventory.ErrSoldOut), errors.Is(err, inventory.ErrBuyerLimit), errors.Is(err, orders.ErrAlreadyPaid):
						default:
							t.Errorf("payment %s of %s: got %+v, error %v, want it accepted or refused", ref, buyer, o, err)
						}
					})
				}
				payments.Wait()
				o, err := p.store.OrderOf(ctx, buyer, placed.Order.ID)
				if err != nil {
					t.Errorf("read the paid order: got error %v, want none", err)
					return
				}
				paidBy.Range(func(ref, _ any) bool {
					accepted.Add(1)
					if !o.PaidBy(ref.(string)) {
						t.Errorf("payment %v of %s: got it accepted, but the order is %+v, want it paid", ref, buyer, o)
					}
					return true
				})
			})
		}
		all.Wait()
		// A second payment of an order may have held units for a moment, so some buyers were
		// refused although units were left. Sell these units.
		more := 0
		check.Eventually(t, "all units are sold", func() bool {
			more++
			buyer := fmt.Sprint("more-", more)
			if placed, err := p.Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: 1}); err == nil {
				if _, err := untilKnown(t, func() (*orders.Order, error) { return p.Pay(ctx, buyer, placed.Order.ID, "r") }); err == nil {
					accepted.Add(1)
				}
			}
			sale, err := p.store.Sale(ctx, "S")
			return err == nil && sale.Sold >= total
		})
		p.dropped(t)
		a := p.settled(t, "S")
		if a.Paid != total || a.Sold != total || a.Available != 0 || accepted.Load() != total {
			t.Errorf("crowd: got %d payments accepted, want %d; audit: %+v", accepted.Load(), total, a)
		}
	})
}
