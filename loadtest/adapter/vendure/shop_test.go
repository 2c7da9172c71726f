package main

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/adapter"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// connect returns a shop whose operator has logged in to the recorded Vendure. The shop reads
// one order at a time.
func connect(t *testing.T) *shop {
	s := &shop{url: vendure(t), perPage: 1}
	check.Must(t, s.login(t.Context()))
	return s
}

// holds checks the orders and the units that are left, as Vendure reports them.
func holds(t *testing.T, s *shop, sku string, wantLeft int, want ...judge.Row) {
	t.Helper()
	left, err := s.Left(t.Context(), sku)
	check.OK(t, err)
	if left != wantLeft {
		t.Errorf("%d units of %s are left, want %d", left, sku, wantLeft)
	}
	rows, err := s.Rows(t.Context(), sku)
	check.OK(t, err)
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("the rows of %s are %+v, want %+v", sku, rows, want)
	}
}

// buys places an order and returns the row that it must become.
func buys(t *testing.T, s *shop, sku, buyer, key string, units int) judge.Row {
	t.Helper()
	o, err := s.Order(t.Context(), sku, buyer, key, units)
	check.Must(t, err)
	if o.ID == "" {
		t.Error("the order has no id")
	}
	return judge.Row{Order: judge.Order{ID: o.ID, Buyer: buyer, Quantity: units}, Key: key}
}

func TestOrdersAreReadFromVendure(t *testing.T) {
	s := connect(t)
	check.Must(t, s.Open(t.Context(), "a", 3, 1000, "USD"))
	check.Must(t, s.Open(t.Context(), "b", 5, 1000, "USD"))
	holds(t, s, "a", 3)
	first := buys(t, s, "a", "buyer-1", "key-1", 2)
	other := buys(t, s, "b", "buyer-1", "key-1", 1)
	second := buys(t, s, "a", "buyer-2", "key-2", 1)
	holds(t, s, "a", 0, first, second)
	holds(t, s, "b", 4, other)
}

func TestSoldOut(t *testing.T) {
	s := connect(t)
	check.Must(t, s.Open(t.Context(), "a", 1, 1000, "USD"))
	// This guest has the last unit in the cart when another guest buys it.
	late := newSession(s.url, "shop-api")
	check.Must(t, late.call(t.Context(), "AddItem", values{"variant": s.variant("a").ID, "units": 1}, nil))
	only := buys(t, s, "a", "buyer-1", "key-1", 1)
	check.Is(t, late.call(t.Context(), "Checkout", values{"buyer": "buyer-2", "email": "2@example.com", "key": "key-2"}, nil), adapter.ErrSoldOut)
	check.Is(t, check.Err(s.Order(t.Context(), "a", "buyer-3", "key-3", 1)), adapter.ErrSoldOut)
	holds(t, s, "a", 0, only)
}

// After an error other than insufficient stock, the outcome is unknown.
func TestOtherErrorsAreNotSoldOut(t *testing.T) {
	s := connect(t)
	check.Must(t, s.Open(t.Context(), "a", 1, 1000, "USD"))
	for _, broken := range []struct {
		err  error
		want string
	}{
		{check.Err(s.Order(t.Context(), "a", "buyer-1", "key-1", -1)), "AddItem: NEGATIVE_QUANTITY_ERROR"},
		{check.Err(s.Order(t.Context(), "not opened", "buyer-1", "key-1", 1)), "AddItem: No ProductVariant"},
		{newSession(s.url, "shop-api").call(t.Context(), "Pay", nil, nil), "Pay: NO_ACTIVE_ORDER_ERROR"},
	} {
		if broken.err == nil || errors.Is(broken.err, adapter.ErrSoldOut) || !strings.Contains(broken.err.Error(), broken.want) {
			t.Errorf("got error %v, want one that contains %q", broken.err, broken.want)
		}
	}
	holds(t, s, "a", 1)
}

// Vendure's stock is the count of an audit.
func TestAbout(t *testing.T) {
	w := httptest.NewRecorder()
	adapter.Handler(&shop{about: about}).ServeHTTP(w, httptest.NewRequest("GET", "/v1/about", nil))
	var got adapter.About
	check.Must(t, json.Unmarshal(w.Body.Bytes(), &got))
	lacks := []judge.Feature{judge.Cancelling, judge.CancelOrPay, judge.ChangeFeed, judge.Keys, judge.Limit, judge.Paying}
	if slices.Sort(got.Lacks); got.Name != "Vendure" || !slices.Equal(got.Lacks, lacks) {
		t.Errorf("about is %+v, want Vendure, which lacks %v", got, lacks)
	}
}
