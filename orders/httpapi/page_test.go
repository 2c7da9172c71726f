package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// pages reads all pages of a list of orders, and returns the ids by page.
func pages(t *testing.T, f *front, path string) (all [][]string) {
	t.Helper()
	for cursor := ""; ; {
		w, err := f.ask("GET", path+"&cursor="+cursor, "")
		check.Must(t, err)
		var page struct {
			Orders []struct{ ID string }
			Next   string `json:"next_cursor"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Orders == nil {
			t.Fatalf("page %s: got error %v, want a list of orders", w.Body, err)
		}
		var ids []string
		for _, o := range page.Orders {
			ids = append(ids, o.ID)
		}
		all = append(all, ids)
		if cursor = page.Next; cursor == "" || len(all) > 50 {
			return all
		}
	}
}

// A buyer's orders are listed newest first, even within a millisecond. The orders of a sale are
// listed by id. Each order is on exactly one page.
func TestPages(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		store, ids := bare.StoreWithOrders(t, s.SQL, 25)
		base := kit.ClockOf(t, store.DB)
		var newest []string
		for i, id := range ids { // five orders have the same time
			kit.Exec(t, store.DB, "UPDATE orders SET buyer = 'ann', created_at = ? WHERE id = ?", base.Add(time.Duration(i/5)*time.Millisecond), id)
			newest = append(newest, id)
		}
		kit.Exec(t, store.DB, "UPDATE orders SET buyer = 'eve' WHERE id = ?", ids[7])
		newest = slices.DeleteFunc(newest, func(id string) bool { return id == ids[7] })
		slices.Reverse(newest)

		f := newFront(build(t, s, nil).Service)
		for limit, want := range map[int]int{1: 24, 7: 4, 8: 3, 24: 1, 100: 1} {
			got := pages(t, f, fmt.Sprintf("/v1/orders?limit=%d", limit))
			if len(got) != want || !slices.Equal(slices.Concat(got...), newest) {
				t.Errorf("orders of a buyer, limit %d: got %d pages: %v, want %d pages", limit, len(got), got, want)
			}
			got = pages(t, f, fmt.Sprintf("/v1/admin/sales/S/orders?limit=%d", limit))
			if !slices.Equal(slices.Concat(got...), ids) {
				t.Errorf("orders of the sale, limit %d: got %v, want %v", limit, got, ids)
			}
		}
		if first := pages(t, f, "/v1/orders?limit=")[0]; len(first) != 20 {
			t.Errorf("default page: got %d orders, want 20", len(first))
		}
		if w, err := f.ask("GET", "/v1/orders", "", "Buyer: joe"); err != nil || w.Body.String() != `{"next_cursor":"","orders":[]}` {
			t.Errorf("a buyer without orders: got %s, error %v, want an empty list", w.Body, err)
		}
	})
}

// Refund claims are listed by order and reference. Each claim is on exactly one page.
func TestPagesOfRefunds(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		store, ids := bare.StoreWithOrders(t, s.SQL, 4)
		kit.Exec(t, store.DB, "UPDATE orders SET status = ?, closed_at = expires_at, amount = 1999", orders.Cancelled)
		f := newFront(build(t, s, nil).Service)
		var want []string
		for i, id := range ids {
			for _, ref := range []string{"Z", "a", "a.b", "~"} { // in the order of bytes
				check.Is(t, check.Err(f.ask("POST", "/v1/orders/"+id+"/pay", `{"payment_ref":"`+ref+`"}`, fmt.Sprint("Buyer: buyer-", i))), orders.ErrOrderClosed)
				want = append(want, id+" "+ref)
			}
		}
		for limit, count := range map[int]int{1: 16, 3: 6, 4: 4, 16: 1, 1000: 1} {
			var got []string
			pages := 0
			for cursor := ""; pages == 0 || cursor != "" && pages < 50; pages++ {
				w, err := f.ask("GET", fmt.Sprintf("/v1/admin/refunds?limit=%d&cursor=%s", limit, cursor), "")
				var page struct {
					Refunds []map[string]any
					Next    string `json:"next_cursor"`
				}
				if e := json.Unmarshal(w.Body.Bytes(), &page); err != nil || e != nil {
					t.Fatalf("page of refund claims: got error %v, JSON error %v, want neither", err, e)
				}
				for _, r := range page.Refunds {
					got = append(got, fmt.Sprint(r["order_id"], " ", r["payment_ref"]))
					if _, err := time.Parse("2006-01-02T15:04:05.000Z", fmt.Sprint(r["created_at"])); err != nil || len(r) != 8 ||
						r["sku"] != "S" || r["amount"] != 1999.0 || r["currency"] != "EUR" || r["reason"] != "cancelled" || r["buyer"] == "" {
						t.Fatalf("refund claim: got %v, error %v, want one of S with 8 fields", r, err)
					}
				}
				cursor = page.Next
			}
			if pages != count || !slices.Equal(got, want) {
				t.Errorf("refund claims with limit %d: got %d pages: %v, want %d pages: %v", limit, pages, got, count, want)
			}
		}
	})
}

func TestInvalidPageParameters(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		bare.StoreWithOrders(t, s.SQL, 1)
		f := newFront(build(t, s, nil).Service)
		b64 := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		id := "01a1f945-8d3e-761d-bbcb-7d1dab60df27"
		for _, query := range []string{
			"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=1e1", "limit=99999999999999999999",
			"cursor=x", "cursor=%20", "cursor=%C3%BC", "cursor=" + b64("1."), "cursor=" + b64(id), "cursor=" + b64("x."+id),
			"cursor=" + b64("1.ü"), "cursor=" + b64("9223372036854775807."+id), "cursor=" + b64("-1."+id), "cursor=" + b64("\x00"),
		} {
			for _, path := range []string{"/v1/orders?", "/v1/admin/sales/S/orders?", "/v1/admin/refunds?"} {
				if w, err := f.ask("GET", path+query, ""); !errors.As(err, new(*orders.InvalidError)) {
					t.Errorf("page %s%s: got %d, error %v, want an invalid request", path, query, w.Code, err)
				}
			}
		}
	})
}
