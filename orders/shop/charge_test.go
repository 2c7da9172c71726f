package shop

import (
	"errors"
	"slices"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// A payment of another amount or currency pays no order, whatever the order's status. It has a
// claim for what was charged, unless the same payment has paid the order. The same reference is
// answered the same afterwards, and another one can pay the order as before.
func TestCheckedPayment(t *testing.T) {
	t.Parallel()
	for _, on := range []string{orders.OnOrder, orders.OnPayment} {
		t.Run(on, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				p := open(t, s, quick)
				put := kit.Sale("S", 20, 2)
				put.ReserveOn = on
				p.put(t, put)
				for origin, test := range map[string]struct {
					prepare func(id string)
					same    error // of the right amount with the same reference
					another error // of the right amount with another reference
				}{
					"pending":         {nil, orders.ErrAmountMismatch, nil},
					"cancelled":       {func(id string) { cancels(t, p, "cancelled"+on, id, nil) }, orders.ErrAmountMismatch, orders.ErrOrderClosed},
					"paid":            {func(id string) { pays(t, p, "paid"+on, id, "p", nil) }, orders.ErrAmountMismatch, orders.ErrAlreadyPaid},
					"paid-by-it":      {func(id string) { pays(t, p, "paid-by-it"+on, id, "ref", nil) }, nil, orders.ErrAlreadyPaid},
					"expired-already": {nil, orders.ErrAmountMismatch, nil},
				} {
					buyer, id := origin+on, ""
					if origin == "expired-already" && on == orders.OnOrder {
						id = p.expired(t, buyer, 2)
					} else {
						id = places(t, p, Placement{Buyer: buyer, SKU: "S", Quantity: 2, Key: "k"}, nil).Order.ID
					}
					if test.prepare != nil {
						test.prepare(id)
					}
					chargesOf(t, p, origin, buyer, id, test.same, test.another)
				}
				if a := p.settled(t, "S"); a.Paid != 8 || a.Pending != 0 { // all orders but the cancelled one
					t.Errorf("audit: got %+v, want 8 units paid", a)
				}
			})
		})
	}
}

// chargesOf pays an order of 3,998 cents with right and wrong charges. It expects the error same for
// the right charge with the reference ref, and another for it with another reference.
func chargesOf(t *testing.T, p *shop, origin, buyer, id string, same, another error) {
	t.Helper()
	right, wrong, eur, usd := int64(3998), int64(3999), "EUR", "USD"
	for _, c := range []struct {
		ref    string
		charge orders.Charge
		want   error
	}{
		{"ref", orders.Charge{Amount: &wrong, Currency: &eur}, orders.ErrAmountMismatch},
		{"ref", orders.Charge{Currency: &usd}, orders.ErrAmountMismatch},
		{"ref", orders.Charge{Amount: &right, Currency: &eur}, same},
		{"ref", orders.Charge{}, same},
		{"another", orders.Charge{Amount: &right}, another},
		{"ref", orders.Charge{Amount: &right}, same},
	} {
		o, err := untilKnown(t, func() (*orders.Order, error) { return p.PayCharge(t.Context(), buyer, id, c.ref, c.charge) })
		if !errors.Is(err, c.want) || o == nil || o.ID != id {
			t.Errorf("payment %s of the %s order: got %+v, error %v, want error %v", c.ref, origin, o, err, c.want)
		}
	}
	claims, _, err := p.store.Claims(t.Context(), 1000, "")
	check.Must(t, err)
	claims = slices.DeleteFunc(claims, func(c orders.Claim) bool { return c.OrderID != id || c.PaymentRef != "ref" })
	if has := len(claims) == 1 && claims[0].Amount == wrong && claims[0].Currency == eur; has != (same != nil) || len(claims) > 1 {
		t.Errorf("claims of the %s order: got %+v, want one for %d EUR: %t", origin, claims, wrong, same != nil)
	}
}
