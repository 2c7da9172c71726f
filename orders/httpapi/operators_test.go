package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/shop"
)

// terms returns the body of a PUT of a sale. more contains additional fields.
func terms(total int, more string) string {
	return fmt.Sprintf(`{"name":"A thing","price":1999,"currency":"EUR","total":%d,"per_buyer_limit":5,
		"opens_at":"2026-01-01T00:00:00Z","closes_at":"2100-01-01T00:00:00Z","payment_window_s":60%s}`, total, more)
}

// A sale shows its description and image if it has them. A PUT without them removes them.
func TestDescriptionOfASale(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		f := newFront(serve(t, s, orders.Sale{}, nil).Service)
		shown := `"description":"` + strings.Repeat("日", 500) + `","image_url":"/s.png"`
		for more, want := range map[string]string{"," + shown: shown, "": `"name":"A thing","price"`, `,"description":"","image_url":""`: `"name":"A thing","price"`} {
			if w, err := f.ask("PUT", "/v1/admin/sales/S", terms(10, more)); err != nil || !strings.Contains(w.Body.String(), want) {
				t.Errorf("PUT with %q: got %s, error %v, want %s", more, w.Body, err, want)
			}
			for _, path := range []string{"/v1/sales/S", "/v1/sales"} {
				if w, err := f.ask("GET", path, ""); err != nil || !strings.Contains(w.Body.String(), want) {
					t.Errorf("GET %s after a PUT with %q: got %s, error %v, want %s", path, more, w.Body, err, want)
				}
			}
		}
		for more, field := range map[string]string{
			`,"description":null`: "description", `,"description":1`: "description", `,"description":"` + strings.Repeat("x", 501) + `"`: "description",
			`,"image_url":"//example.com"`: "image_url", `,"image_url":"ftp://x/y"`: "image_url",
			`,"description":"` + strings.Repeat("😀", 1000) + `"`: "body", // over 4 KiB
		} {
			_, err := f.ask("PUT", "/v1/admin/sales/S", terms(10, more))
			var wrong *orders.InvalidError
			if !errors.As(err, &wrong) || len(wrong.Fields) != 1 || wrong.Fields[field] == "" {
				t.Errorf("sale with the field %.40s: got error %v, want one about %s", more, err, field)
			}
		}
	})
}

// If two operators change a sale at once, the second change is refused, because its If-Match has
// the version of the old sale. A version that a GET returns is accepted as well. No response has an
// ETag, because the number of available units changes while the version does not.
func TestIfMatch(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := serve(t, s, orders.Sale{}, nil)
		here, there := newFront(p.Service), newFront(p.Service) // two nodes' copies of what is on sale
		version := func(w *httptest.ResponseRecorder) string {
			t.Helper()
			o, _ := object(t, w.Body.String())
			if w.Header().Get("ETag") != "" || o["version"] == nil {
				t.Errorf("answer with a sale: got %v %s, want a version and no ETag", w.Header(), w.Body)
			}
			return fmt.Sprintf("%q", o["version"])
		}
		change := func(f *front, method, path, body, tag string, want error) string {
			t.Helper()
			w, err := f.ask(method, "/v1/admin/sales/S"+path, body, "If-Match: "+tag)
			if check.Is(t, err, want); err != nil {
				return ""
			}
			return version(w)
		}
		read := func(f *front) string {
			t.Helper()
			w, err := f.ask("GET", "/v1/sales/S", "")
			check.Must(t, err)
			return version(w)
		}
		change(here, "PUT", "", terms(10, ""), "*", orders.ErrPrecondition) // the sale does not exist yet
		w, err := here.ask("PUT", "/v1/admin/sales/S", terms(10, ""))
		check.Must(t, err)
		first := version(w)
		if read(here) != first || read(there) != first {
			t.Errorf("versions of one sale: got %s from the PUT, %s and %s from the GETs, want all equal", first, read(here), read(there))
		}
		check.Must(t, check.Err(p.Place(t.Context(), shop.Placement{Buyer: "ann", SKU: "S", Quantity: 1})))
		second := change(here, "PUT", "", terms(12, ""), first, nil)
		change(there, "PUT", "", terms(11, ""), first, orders.ErrPrecondition)
		change(there, "POST", "/close", "", first, orders.ErrPrecondition)
		if a := bare.WaitSettled(t, p, "S"); a.Total != 12 || second == first || read(here) != second {
			t.Errorf("changed sale: got audit %+v, versions %s and %s, GET has %s, want a total of 12 and a new version in the GET", a, first, second, read(here))
		}
		// The other node returns its copy, with the old version, for up to a second.
		check.Eventually(t, "the new version is read", func() bool {
			tag := read(there)
			if tag != second {
				change(there, "PUT", "", terms(11, ""), tag, orders.ErrPrecondition)
			}
			return tag == second
		})
		third := change(there, "POST", "/close", "", "*", nil)
		if fourth := change(there, "POST", "/close", "", third, nil); fourth != third || third == second {
			t.Errorf("versions of a close: got %s before it, %s after it, %s after a second close, want a change by the first close only", second, third, fourth)
		}
		w, err = there.ask("GET", "/v1/sales/S", "")
		if o, _ := object(t, w.Body.String()); err != nil || o["state"] != "closed" || version(w) != third {
			t.Errorf("GET of the closed sale: got %v %s, error %v, want version %s", w.Header(), w.Body, err, third)
		}
	})
}

// An operator can read the orders of every buyer. A queued order has no key. A missing or invalid
// buyer is an error.
func TestOperatorReadsOrdersOfAllBuyers(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 10, 10))
		p := build(t, s, nil) // without keepers, so the order stays queued
		f := newFront(p.Service)
		queued, err := p.Place(t.Context(), shop.Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k", Async: true})
		check.Must(t, err)
		w, err := f.ask("GET", "/v1/admin/orders/"+queued.Order.ID, "", "Buyer: op")
		if o, _ := object(t, w.Body.String()); err != nil || w.Code != http.StatusOK || o["status"] != "reserved" || o["buyer"] != "ann" || o["idempotency_key"] != nil {
			t.Errorf("queued order: got %d %s, error %v, want ann's without its key", w.Code, w.Body, err)
		}
		b.Keeper(t, "S").Finish(t)
		for path, there := range map[string]bool{"/" + queued.Order.ID: true, "?buyer=ann": true, "?buyer=bob": false} {
			w, err := f.ask("GET", "/v1/admin/orders"+path, "", "Buyer: op")
			if err != nil || strings.Contains(w.Body.String(), `"status":"pending_payment"`) != there || strings.Contains(w.Body.String(), `"idempotency_key":"k"`) != there {
				t.Errorf("orders%s: got %s, error %v, want the durable order %t", path, w.Body, err, there)
			}
		}
		for query, field := range map[string]string{
			"": "buyer", "?buyer=": "buyer", "?buyer=%C3%BC": "buyer", "?buyer=a%20b": "buyer", "?buyer=" + strings.Repeat("a", 65): "buyer",
			"?buyer=ann&limit=0": "limit", "?buyer=ann&limit=1001": "limit", "?buyer=ann&cursor=x": "cursor",
		} {
			var wrong *orders.InvalidError
			if _, err := f.ask("GET", "/v1/admin/orders"+query, ""); !errors.As(err, &wrong) || wrong.Fields[field] == "" {
				t.Errorf("query %q: got error %v, want an error of %s", query, err, field)
			}
		}
	})
}

// The error for an invalid void or charge names the field that is wrong, and nothing changes. A
// void of the maximum number of orders is accepted.
func TestBadVoidsAndCharges(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := serve(t, s, kit.Sale("S", 10, 10), nil)
		f := newFront(p.Service)
		placed, err := p.Place(t.Context(), shop.Placement{Buyer: "ann", SKU: "S", Quantity: 1})
		check.Must(t, err)
		id := placed.Order.ID
		list := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"`+id+`",`, n), ",") }
		const void, huge = "/v1/admin/sales/S/void", "1000000000000000000000000000000"
		pay := "/v1/orders/" + id + "/pay"
		for _, bad := range []struct{ path, body, field string }{
			{void, `{}`, "orders"}, {void, `{"orders":[]}`, "orders"}, {void, `{"orders":null}`, "orders"}, {void, `{"orders":"` + id + `"}`, "orders"},
			{void, `{"orders":[1]}`, "orders"}, {void, `{"orders":[` + list(201) + `]}`, "orders"}, {void, `{"orders":[` + list(500) + `]}`, "body"},
			{void, `{"orders":["x"],"reason":""}`, "reason"}, {void, `{"orders":["x"],"reason":"a b"}`, "reason"},
			{void, `{"orders":["x"],"reason":"` + strings.Repeat("x", 33) + `"}`, "reason"}, {void, `{"orders":["x"],"sku":"S"}`, "sku"},
			{pay, `{"payment_ref":"r","amount":1e3}`, "amount"}, {pay, `{"payment_ref":"r","amount":"1999"}`, "amount"},
			{pay, `{"payment_ref":"r","amount":-1}`, "amount"}, {pay, `{"payment_ref":"r","amount":1.5}`, "amount"},
			{pay, `{"payment_ref":"r","amount":1999.0}`, "amount"}, {pay, `{"payment_ref":"r","amount":` + huge + `}`, "amount"},
			{pay, `{"payment_ref":"r","amount":null}`, "amount"}, {pay, `{"payment_ref":"r","amount":1999,"amount":1999}`, "amount"},
			{pay, `{"payment_ref":"r","currency":"eur"}`, "currency"}, {pay, `{"payment_ref":"r","currency":""}`, "currency"},
			{pay, `{"payment_ref":"r","currency":"EURO"}`, "currency"}, {pay, `{"payment_ref":"r","currency":978}`, "currency"},
			{pay, `{"payment_ref":"r","Amount":1999}`, "Amount"}, {pay, `{"amount":1999}`, "payment_ref"},
			{pay, `{"payment_ref":"a","payment_ref":"b"}`, "payment_ref"}, {pay, `{"Payment_Ref":"a","payment_ref":"a"}`, "Payment_Ref"},
			{pay, `{"payment_ref":null}`, "payment_ref"}, {pay, `{"payment_ref":"ä"}`, "payment_ref"}, {pay, `{"payment_ref":"a b"}`, "payment_ref"},
		} {
			var invalid *orders.InvalidError
			if _, err := f.ask("POST", bad.path, bad.body); !errors.As(err, &invalid) || invalid.Fields[bad.field] == "" {
				t.Errorf("POST %s %.60s: got error %v, want an error of the field %s", bad.path, bad.body, err, bad.field)
			}
		}
		if rows := kit.RowsOf(t, p.store.DB); rows[id].Status != orders.PendingPayment || rows[id].Claims != 0 {
			t.Errorf("order after malformed requests: got %+v, want it unchanged", rows[id])
		}
		_, err = f.ask("POST", "/v1/admin/sales/T/void", `{"orders":["x"]}`)
		check.Is(t, err, orders.ErrNotFound)
		_, err = f.ask("POST", pay, `{"payment_ref":"q","amount":2000,"currency":"EUR"}`)
		check.Is(t, err, orders.ErrAmountMismatch)
		check.Must(t, check.Err(f.ask("POST", pay, `{"payment_ref":"r","amount":1999,"currency":"EUR"}`)))
		w, err := f.ask("POST", void, `{"orders":["\u0000",`+list(199)+`]}`)
		if want := `{"voided":["` + id + `"],"skipped":[{"id":"\u0000","why":"not_found"}]}`; err != nil || w.Body.String() != want {
			t.Errorf("void of 200 ids: got %s, error %v, want %s", w.Body, err, want)
		}
	})
}
