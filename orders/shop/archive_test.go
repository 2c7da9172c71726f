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

// Of an archived sale a node knows nothing. A new sale of its SKU sells from the
// beginning: to the same buyers, under the same keys. No payment of the old one's
// orders touches it.
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
	kit.Overdue(t, p.store.DB, expired.Order.ID)
	check.Eventually(t, "Redis has forgotten the sale", func() bool { return p.catalog.Known("S").Mode == orders.ModeOver })
	pays(t, p, "bob", expired.Order.ID, "late", orders.ErrOrderClosed)

	_, name, _ := strings.Cut(servertest.OpenSQL(t, servers.KindReal), "/")
	archive, err := p.store.OpenArchive(ctx, name)
	check.Must(t, err)
	if _, err := archive.Step(ctx, "S", time.Minute); err == nil {
		t.Fatal("a sale with a refund of this moment is archived")
	}
	kit.Exec(t, p.store.DB, "UPDATE sales SET updated_at = closes_at")
	step, err := archive.Step(ctx, "S", 0)
	if check.Must(t, err); step.Orders != 2 || !step.Last {
		t.Fatalf("%+v", step)
	}
	check.Eventually(t, "the node does not list the sale", func() bool { return p.catalog.Known("S") == nil })
	gone := func(when string, errs ...error) {
		t.Helper()
		for i, err := range errs {
			if !errors.Is(err, orders.ErrNotFound) {
				t.Errorf("%s, %d: %v", when, i, err)
			}
		}
	}
	oldOnes := func() []error {
		return []error{
			check.Err(p.Order(ctx, "ann", paid.Order.ID, "", "")),
			check.Err(p.Pay(ctx, "ann", paid.Order.ID, "ref")),
			check.Err(p.Pay(ctx, "bob", expired.Order.ID, "late")),
			check.Err(p.Pay(ctx, "bob", expired.Order.ID, "another")),
			check.Err(p.Cancel(ctx, "bob", expired.Order.ID)),
			check.Err(p.BuyerOf(ctx, paid.Order.ID)),
		}
	}
	gone("an order", oldOnes()...)
	gone("the sale", check.Err(place("ann")), check.Err(p.Offer(ctx, "S")), check.Err(p.Audit(ctx, "S")), check.Err(p.Rebuild(ctx, "S")), check.Err(p.EndSale(ctx, "S")))
	if _, _, err := p.OrdersOfSale(ctx, "S", 10, ""); !errors.Is(err, orders.ErrNotFound) {
		t.Error(err)
	}

	p.put(t, kit.Sale("S", 2, 1))
	var again Placed
	check.Eventually(t, "ann buys of the new sale", func() bool { again, err = place("ann"); return err == nil })
	if again.Replayed || again.Order.ID == paid.Order.ID || again.Order.Status != orders.PendingPayment {
		t.Errorf("a new order under an old key: %+v", again)
	}
	gone("an order, the SKU sells again", oldOnes()...)
	if got := refundsOf(t, p.store); len(got) > 0 {
		t.Errorf("refunds: %v", got)
	}
	p.settledAt(t, 1, 1, 0)
}
