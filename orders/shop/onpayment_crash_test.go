package shop

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// orderOnPayment inserts an order that awaits payment, and returns its id.
func orderOnPayment(t testing.TB, b *bare.Bare, buyer, key string, quantity int64) string {
	t.Helper()
	d, err := b.Store.CommitOnPayment(t.Context(), "S", []inventory.QueuedOrder{asked(buyer, key, quantity)})
	if err != nil || d[0].Refused != "" {
		t.Fatalf("order of %s: got %+v, error %v, want it accepted", buyer, d, err)
	}
	return d[0].Order.ID
}

// unpaid returns a sale of 4 units in which payments that take units are queued. ann's first
// payment fits, and her second payment is for the same order. After their payments were queued,
// bob cancelled his order, and cid's order expired. ann's third payment exceeds her limit, and
// eve's payment exceeds the total. A gate accepts payments like ann's third and eve's if Redis
// has lost data.
func unpaid(t *testing.T, s *servers.Stores) (b *bare.Bare, refs map[string]bool, orders map[string]string) {
	t.Helper()
	b = bare.Open(t, s, onPayment("S", 4, 2))
	orders = map[string]string{}
	for buyer, n := range map[string]int64{"ann": 2, "bob": 1, "cid": 1, "eve": 2, "joe": 2} {
		orders[buyer] = orderOnPayment(t, b, buyer, "k", n)
	}
	more := func(n int64) { // gives the gate more units and a higher limit than the database
		for _, field := range []string{"available", "per_buyer"} {
			check.Must(t, b.Rdb.HIncrBy(t.Context(), "sale:{S}", field, n).Err())
		}
	}
	payAgain(t, b, orders["ann"], "fits")
	more(20)
	payAgain(t, b, orders["ann"], "twice")
	payAgain(t, b, orders["bob"], "cancelled")
	payAgain(t, b, orders["cid"], "expired")
	payAgain(t, b, orderOnPayment(t, b, "ann", "more", 1), "over-limit")
	payAgain(t, b, orders["eve"], "sold-out")
	more(-20)
	cancels(t, b.Store, "bob", orders["bob"], nil)
	kit.MakeOverdue(t, b.Store.DB, orders["cid"])
	check.Must(t, check.Err(b.Store.Expire(t.Context())))
	return b, map[string]bool{"fits": true, "expired": true, "cancelled": true, "over-limit": true, "sold-out": true}, orders
}

// wrongUnpaid is like wrongWithLate, for a sale in which only payments take units.
func wrongUnpaid(t testing.TB, b *bare.Bare, refs map[string]bool) []string {
	wrong := wrongWithLate(t, b, refs)
	for id, o := range b.Rows(t) {
		if o.Status == orders.PendingPayment {
			wrong = append(wrong, id+" is unpaid and holds units")
		}
	}
	if a := b.Audit(t); a.Sold != a.Paid || a.Paid > a.Total || a.Available != a.Total-a.Paid {
		wrong = append(wrong, fmt.Sprintf("paid %d of %d, sold %d, available %d", a.Paid, a.Total, a.Sold, a.Available))
	}
	return wrong
}

var unpaidRefunds = []string{"ann over-limit buyer_limit", "bob cancelled cancelled", "eve sold-out sold_out"}

// A keeper crashes while it decides on payments that take units. Each payment has one outcome,
// which a repetition returns, and all units are accounted for.
func TestOnPaymentCrash(t *testing.T) {
	t.Parallel()
	ways := map[string]strike{"dies": kit.FromThenOn}
	eachCrash(t, ways, unpaid, func(t *testing.T, b *bare.Bare, p *Service, refs map[string]bool, list map[string]string) {
		kit.MustBeEmpty(t, wrongUnpaid(t, b, refs))
		if got := refundsOf(t, b.Store); !kit.SameInAnyOrder(got, unpaidRefunds) {
			t.Errorf("refund claims: got %q, want %q", got, unpaidRefunds)
		}
		for buyer, want := range map[string]struct {
			ref string
			err error
		}{
			"ann": {"fits", nil}, "bob": {"cancelled", orders.ErrOrderClosed}, "cid": {"expired", nil},
			"eve": {"sold-out", inventory.ErrSoldOut}, "joe": {"new", inventory.ErrSoldOut},
		} {
			if o, err := p.Pay(t.Context(), buyer, list[buyer], want.ref); !errors.Is(err, want.err) {
				t.Errorf("repeated payment of %s: got %+v, error %v, want %v", buyer, o, err, want.err)
			}
		}
		pays(t, p, "ann", list["ann"], "twice", orders.ErrAlreadyPaid)
	})
}

// Without any one guard of payments that take units, wrongUnpaid finds a violation.
func TestOnPaymentTwins(t *testing.T) {
	t.Parallel()
	pay := func(t *testing.T, b *bare.Bare, id string, sold int64) {
		kit.Exec(t, b.Store.DB, "UPDATE orders SET status = ?, payment_ref = id, paid_at = created_at WHERE id = ?", orders.Paid, id)
		kit.Exec(t, b.Store.DB, "UPDATE sales SET sold = sold + ?", sold)
	}
	for name, twin := range map[string]struct {
		spoil func(t *testing.T, b *bare.Bare, orders map[string]string)
		want  string
	}{
		"paid without the gate": {func(t *testing.T, b *bare.Bare, orders map[string]string) {
			b.Keeper(t, "S").Finish(t)
			pay(t, b, orders["joe"], 0)
		}, "sold is 3, open orders hold 5"},
		"paid in the database only": {func(t *testing.T, b *bare.Bare, orders map[string]string) {
			b.Keeper(t, "S").Finish(t)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET total = total + 1")
			pay(t, b, orders["joe"], 2)
		}, "joe has 2 units, the gate counts 0"},
		"counted at the order": {func(t *testing.T, b *bare.Bare, orders map[string]string) {
			b.Keeper(t, "S").Finish(t)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET sold = sold + 1")
		}, "sold is 4, open orders hold 3"},
		"reserved on order": {func(t *testing.T, b *bare.Bare, orders map[string]string) {
			b.Keeper(t, "S").Finish(t)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET reserve_on = 'order'")
			b.Reserve(t, "kim", "", 1)
			b.Keeper(t, "S").Finish(t)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET reserve_on = 'payment'")
		}, "is unpaid and holds units"},
		"a payment counted twice": {func(t *testing.T, b *bare.Bare, list map[string]string) {
			k := b.Keeper(t, "S")
			decisions, err := b.Store.Commit(t.Context(), "S", k.Fence(), b.Queue(t)[:1])
			if err != nil || decisions[0].Action != orders.MarkPaid {
				t.Fatalf("decisions: got %+v, error %v, want a late payment", decisions, err)
			}
			kit.Exec(t, b.Store.DB, "UPDATE orders SET status = ?, restored_at = created_at, hold_id = NULL WHERE id = ?", orders.AwaitingPayment, list["ann"])
			k.Finish(t)
		}, "sold is"},
		"a cancelled order reduces the units sold": {func(t *testing.T, b *bare.Bare, orders map[string]string) {
			b.Keeper(t, "S").Finish(t)
			cancels(t, b.Store, "joe", orders["joe"], nil)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET sold = sold - 2")
		}, "sold is 1, open orders hold 3"},
		"a cancelled order waits for a release": {func(t *testing.T, b *bare.Bare, orders map[string]string) {
			b.Keeper(t, "S").Finish(t)
			cancels(t, b.Store, "joe", orders["joe"], nil)
			kit.Exec(t, b.Store.DB, "UPDATE orders SET restored_at = NULL WHERE id = ?", orders["joe"])
		}, "is cancelled and not released"},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b, refs, orders := unpaid(t, s)
				twin.spoil(t, b, orders)
				if wrong := strings.Join(wrongUnpaid(t, b, refs), "; "); !strings.Contains(wrong, twin.want) {
					t.Errorf("violations of the twin: got %q, want %q", wrong, twin.want)
				}
			})
		})
	}
}

// In direct mode a payment takes its units in the database. A refusal leaves the order open and
// creates no refund claim. A payment in the queue of the old gate is dropped. The payer can
// repeat a refused or dropped payment.
func TestOnPaymentDirect(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b, ctx := bare.Open(t, s, onPayment("S", 3, 2)), t.Context()
		p := owning(t, New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)}))
		ann, more, bob, eve := orderOnPayment(t, b, "ann", "", 2), orderOnPayment(t, b, "ann", "", 1), orderOnPayment(t, b, "bob", "", 2), orderOnPayment(t, b, "eve", "", 1)
		payAgain(t, b, bob, "bob") // this payment is in the queue of the old gate
		kit.Exec(t, b.Store.DB, "UPDATE sales SET mode = 'direct', fence = fence + 1, epoch = epoch + 1")
		check.Must(t, p.catalog.Refresh(ctx))
		if placed, err := p.Place(ctx, Placement{Buyer: "kim", SKU: "S", Quantity: 1}); err != nil || placed.Order.Status != orders.AwaitingPayment {
			t.Errorf("order of kim: got %+v, error %v, want %s", placed.Order, err, orders.AwaitingPayment)
		}
		for range 2 {
			pays(t, p, "ann", ann, "ann", nil)
			pays(t, p, "ann", ann, "another", orders.ErrAlreadyPaid)
			pays(t, p, "bob", bob, "bob", inventory.ErrSoldOut, orders.AwaitingPayment)
			pays(t, p, "ann", more, "more", inventory.ErrBuyerLimit)
		}
		kit.PutSale(t, b.Store, onPayment("S", 9, 2))
		b.Keeper(t, "S").Finish(t) // opens a gate, which a node may not have noticed yet
		d, err := b.Store.CommitDirect(ctx, "S", []inventory.QueuedOrder{{OrderID: uuid.NewString(), Buyer: "eve", Quantity: 1, Key: "eve", PaysOrder: eve}})
		if !errors.Is(err, orders.ErrNotDirect) {
			t.Errorf("direct payment while the gate is open: got %+v, error %v, want %v", d, err, orders.ErrNotDirect)
		}
		if o := b.Rows(t)[bob]; o.Status != orders.AwaitingPayment {
			t.Errorf("bob's order: got %+v, want %s; the old queue must not pay it", o, orders.AwaitingPayment)
		}
		for buyer, id := range map[string]string{"eve": eve, "bob": bob} {
			payAgain(t, b, id, buyer)
			b.Keeper(t, "S").Finish(t)
			if o := b.Rows(t)[id]; !o.PaidBy(buyer) {
				t.Errorf("order of %s: got %+v, want it paid", buyer, o)
			}
		}
		if wrong := wrongUnpaid(t, b, map[string]bool{"ann": true, "eve": true, "bob": true}); len(wrong) > 0 || len(refundsOf(t, b.Store)) > 0 {
			t.Errorf("sale on payment: got violations %q and refund claims %q, want none", wrong, refundsOf(t, b.Store))
		}
	})
}
