package shop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// After a sale is archived, its orders are not found. A new sale of the SKU accepts orders of
// the same buyers with the same keys. Payments of the old orders do not change it.
func TestArchivedSale(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := open(t, servertest.Open(t, servers.KindReal), func(c *Config) { c.Keeper.ResyncEvery = 20 * time.Millisecond })
	put := kit.Sale("S", 2, 1)
	p.put(t, put)
	place := func(buyer string) (Placed, error) {
		return p.Place(ctx, Placement{Buyer: buyer, SKU: "S", Quantity: 1, Key: "key"})
	}
	paid, err := place("ann")
	check.Must(t, err)
	pays(t, p, "ann", paid.Order.ID, "ref", nil)
	expired, err := place("bob")
	check.Must(t, err)
	check.Is(t, check.Err(place("eve")), inventory.ErrSoldOut)
	put.PaymentWindowS, put.OpensAt, put.ClosesAt = 1, put.OpensAt.Add(-2*time.Hour), put.ClosesAt.Add(-2*time.Hour)
	p.put(t, put)
	kit.MakeOverdue(t, p.store.DB, expired.Order.ID)
	check.Eventually(t, "Redis has forgotten the sale", func() bool { return p.catalog.Cached("S").Mode == orders.ModeOver })
	pays(t, p, "bob", expired.Order.ID, "late", orders.ErrOrderClosed)

	_, name, _ := strings.Cut(servertest.OpenSQL(t, servers.KindReal), "/")
	archive, err := p.store.OpenArchive(ctx, name)
	check.Must(t, err)
	if _, err := archive.Step(ctx, "S", time.Minute); err == nil {
		t.Fatal("archive of a sale with a refund claim of this moment: got no error, want one")
	}
	kit.Exec(t, p.store.DB, "UPDATE sales SET updated_at = closes_at")
	step, err := archive.Step(ctx, "S", 0)
	if check.Must(t, err); step.Orders != 2 || !step.Last {
		t.Fatalf("archive step: got %+v, want the last, with 2 orders", step)
	}
	check.Eventually(t, "the node does not list the sale", func() bool { return p.catalog.Cached("S") == nil })
	gone := func(when string, errs ...error) {
		t.Helper()
		for i, err := range errs {
			if !errors.Is(err, orders.ErrNotFound) {
				t.Errorf("calls to the archived sale, %s, call %d: got error %v, want not found", when, i, err)
			}
		}
	}
	oldOrders := func() []error {
		return []error{
			check.Err(p.Order(ctx, "ann", paid.Order.ID, "", "")),
			check.Err(p.Pay(ctx, "ann", paid.Order.ID, "ref")),
			check.Err(p.Pay(ctx, "bob", expired.Order.ID, "late")),
			check.Err(p.Pay(ctx, "bob", expired.Order.ID, "another")),
			check.Err(p.Cancel(ctx, "bob", expired.Order.ID)),
			check.Err(p.BuyerOf(ctx, paid.Order.ID)),
		}
	}
	gone("an order", oldOrders()...)
	gone("the sale", check.Err(place("ann")), check.Err(p.Offer(ctx, "S")), check.Err(p.Audit(ctx, "S")), check.Err(p.Rebuild(ctx, "S")), check.Err(p.EndSale(ctx, "S")))
	if _, _, err := p.OrdersOfSale(ctx, "S", 10, ""); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("orders of the sale: got error %v, want not found", err)
	}

	p.put(t, kit.Sale("S", 2, 1))
	var second Placed
	check.Eventually(t, "ann has an order of the new sale", func() bool { second, err = place("ann"); return err == nil })
	if second.Replayed || second.Order.ID == paid.Order.ID || second.Order.Status != orders.PendingPayment {
		t.Errorf("order with the key of an archived order: got %+v, want a new order", second)
	}
	gone("an order, while the new sale is on", oldOrders()...)
	if got := refundsOf(t, p.store); len(got) > 0 {
		t.Errorf("refund claims of the new sale: got %v, want none", got)
	}
	p.settledAt(t, 1, 1, 0)
}
