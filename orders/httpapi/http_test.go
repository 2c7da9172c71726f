package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/httpapi"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/shop"
)

// A front routes requests to the handlers. It takes the buyer from the header Buyer, and
// records the error that a handler returns.
type front struct {
	engine *gin.Engine
	err    error
}

func newFront(s *shop.Service) *front {
	gin.SetMode(gin.ReleaseMode)
	f := &front{engine: gin.New()}
	h := httpapi.New(s, func(c *gin.Context) string { return c.GetHeader("Buyer") })
	for route, handle := range map[string]func(*gin.Context) error{
		"POST /v1/orders": h.PlaceOrder, "GET /v1/orders": h.ListOrders, "GET /v1/orders/:id": h.GetOrder,
		"POST /v1/orders/:id/pay": h.PayOrder, "POST /v1/orders/:id/cancel": h.CancelOrder,
		"GET /v1/sales": h.ListSales, "GET /v1/sales/:sku": h.GetSale,
		"PUT /v1/admin/sales/:sku": h.PutSale, "GET /v1/admin/sales/:sku/audit": h.AuditSale,
		"GET /v1/admin/sales/:sku/orders": h.ListSaleOrders, "POST /v1/admin/sales/:sku/rebuild": h.RebuildSale,
		"GET /v1/admin/refunds": h.ListRefunds, "POST /v1/admin/sales/:sku/close": h.EndSale, "POST /v1/admin/sales/:sku/void": h.VoidOrders,
		"GET /v1/admin/orders": h.ListBuyerOrders, "GET /v1/admin/orders/:id": h.GetAnyOrder,
	} {
		method, path, _ := strings.Cut(route, " ")
		f.engine.Handle(method, path, func(c *gin.Context) { f.err = handle(c) })
	}
	return f
}

// ask sends a request, and returns the response and the handler's error. Each header is
// "Name: value". The default buyer is ann.
func (f *front) ask(method, path, body string, headers ...string) (*httptest.ResponseRecorder, error) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range append(headers, "Buyer: ann") { // the first header with a name counts
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	f.err = nil
	f.engine.ServeHTTP(w, r)
	return w, f.err
}

// object decodes a JSON object, and returns it with its sorted field names.
func object(t *testing.T, body string) (map[string]any, string) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatalf("answer %s: got error %v, want a JSON object", body, err)
	}
	names := []string{}
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	return o, strings.Join(names, " ")
}

// The error for an invalid request names the field that is wrong. Programs differ in how they read a
// name in another case or a repeated field, so both are wrong.
func TestBadRequests(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := serve(t, s, kit.Sale("S", 10, 10), nil)
		f := newFront(p.Service)
		good := `{"sku":"S","quantity":1}`
		for _, test := range []struct{ name, body, header, field string }{
			{"empty", "", "", "body"},
			{"not JSON", "sku=S", "", "body"},
			{"cut off", `{"sku":"S","quantity":1`, "", "body"},
			{"an array", `[1]`, "", "body"},
			{"a string", `"S"`, "", "body"},
			{"null", `null`, "", "body"},
			{"no field", `{}`, "", "sku"},
			{"no quantity", `{"sku":"S"}`, "", "quantity"},
			{"SKU with a space", `{"sku":"S S","quantity":1}`, "", "sku"},
			{"a space", " ", "", "body"},
			{"trailing data", good + `{}`, "", "body"},
			{"trailing word", good + ` x`, "", "body"},
			{"trailing brace", good + `}`, "", "body"},
			{"trailing comma", `{"sku":"S","quantity":1,}`, "", "body"},
			{"leading comma", `{,"sku":"S","quantity":1}`, "", "body"},
			{"missing comma", `{"sku":"S" "quantity":1}`, "", "body"},
			{"no name", `{1:"S","quantity":1}`, "", "body"},
			{"byte order mark", "\ufeff" + good, "", "body"},
			{"surrogate without its pair", `{"sku":"\ud800","quantity":1}`, "", "body"},
			{"a name in another case", `{"SKU":"S","sku":"S","quantity":1}`, "", "SKU"},
			{"a name that folds", `{"ſku":"S","sku":"S","quantity":1}`, "", "ſku"},
			{"a field twice", `{"sku":"T","sku":"S","quantity":1}`, "", "sku"},
			{"a field twice, once escaped", `{"sku":"S","\u0073ku":"S","quantity":1}`, "", "sku"},
			{"a field twice in a field", `{"sku":"S","quantity":{"a":1,"a":1}}`, "", "a"},
			{"an object", `{"sku":{"a":"}","quantity":1},"quantity":1}`, "", "sku"},
			{"a list", `{"quantity":1,"sku":["S",{"sku":"S"}]}`, "", "sku"},
			{"spaces and escapes", " \t{\n\"sku\" : \"\\\"}\\\\\" ,\r\"quantity\" : 1 } ", "", "sku"},
			{"no UTF-8", "{\"sku\":\"S\xff\",\"quantity\":1}", "", "body"},
			{"unknown field", `{"sku":"S","quantity":1,"price":0}`, "", "price"},
			{"quantity a string", `{"sku":"S","quantity":"1"}`, "", "quantity"},
			{"quantity a fraction", `{"sku":"S","quantity":1.5}`, "", "quantity"},
			{"quantity with exponent", `{"sku":"S","quantity":1e1}`, "", "quantity"},
			{"quantity null", `{"sku":"S","quantity":null}`, "", "quantity"},
			{"quantity zero", `{"sku":"S","quantity":0}`, "", "quantity"},
			{"quantity negative", `{"sku":"S","quantity":-1}`, "", "quantity"},
			{"quantity beyond the cap", `{"sku":"S","quantity":11}`, "", "quantity"},
			{"quantity overflows", `{"sku":"S","quantity":9223372036854775808}`, "", "quantity"},
			{"quantity overflows by far", `{"sku":"S","quantity":1` + strings.Repeat("0", 400) + `}`, "", "quantity"},
			{"SKU a number", `{"sku":1,"quantity":1}`, "", "sku"},
			{"SKU too long", `{"sku":"` + strings.Repeat("S", 65) + `","quantity":1}`, "", "sku"},
			{"SKU with a brace", `{"sku":"S}{","quantity":1}`, "", "sku"},
			{"SKU not ASCII", `{"sku":"Ä","quantity":1}`, "", "sku"},
			{"too large", `{"sku":"` + strings.Repeat("S", 5000) + `","quantity":1}`, "", "body"},
			{"too large with spaces", good + strings.Repeat(" ", 5000), "", "body"},
			{"key empty", good, "Idempotency-Key: ", "Idempotency-Key"},
			{"key too long", good, "Idempotency-Key: " + strings.Repeat("k", 129), "Idempotency-Key"},
			{"key with a space", good, "Idempotency-Key: a b", "Idempotency-Key"},
			{"key not ASCII", good, "Idempotency-Key: ä", "Idempotency-Key"},
		} {
			headers := []string{"Content-Type: application/json"}
			if test.header != "" {
				headers = append(headers, test.header)
			}
			_, err := f.ask("POST", "/v1/orders", test.body, headers...)
			var invalid *orders.InvalidError
			if !errors.As(err, &invalid) || invalid.Fields[test.field] == "" {
				t.Errorf("bad request %s: got error %v, want an error of the field %s", test.name, err, test.field)
			} else if text := invalid.Error(); strings.Contains(text, "json:") || strings.Contains(text, "Go ") {
				t.Errorf("error text of %s: it mentions the library: %s", test.name, text)
			}
		}
		if _, err := f.ask("POST", "/v1/orders", good, "Idempotency-Key: a", "Idempotency-Key: b"); !errors.As(err, new(*orders.InvalidError)) {
			t.Errorf("two keys: got error %v, want an invalid request", err)
		}
		for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; ;", "application/jsonx", "application/json; charset=utf-16", "application/json; charset=latin1"} {
			check.Is(t, check.Err(f.ask("POST", "/v1/orders", good, "Content-Type: "+media)), httpapi.ErrMediaType)
		}
		check.Is(t, check.Err(f.ask("POST", "/v1/orders", good, "Content-Type: application/json", "Content-Type: text/plain")), httpapi.ErrMediaType)
		check.Is(t, check.Err(f.ask("POST", "/v1/orders", `{"sku":"other","quantity":1}`)), orders.ErrNotFound)
		if rows := kit.RowsOf(t, p.store.DB); len(rows) != 0 {
			t.Errorf("orders after invalid requests: got %d, want none", len(rows))
		}
		_, err := f.ask("POST", "/v1/orders", `{"sku":"","quantity":0}`)
		var invalid *orders.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 2 {
			t.Errorf("two wrong fields: got error %v, want both in the error", err)
		}
		// The error for an unknown field lists the fields of the request.
		for path, names := range map[string]string{"/v1/orders": "quantity, sku", "/v1/orders/x/pay": "amount, currency, payment_ref"} {
			if _, err := f.ask("POST", path, `{"ref":"x"}`); !errors.As(err, &invalid) || !strings.HasSuffix(invalid.Fields["ref"], "which has "+names) {
				t.Errorf("bad request to %s: got error %v, want the names %s", path, err, names)
			}
		}
		check.Must(t, check.Err(f.ask("POST", "/v1/orders", `{"\u0073k\u0075":"S","quantity":1}`)))
		for _, media := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON"} {
			if w, err := f.ask("POST", "/v1/orders", good, "Content-Type: "+media); err != nil || w.Code != http.StatusCreated {
				t.Errorf("Content-Type %s: got %d, error %v, want 201", media, w.Code, err)
			}
		}
	})
}

const (
	orderFields = "amount buyer closed_at created_at currency expires_at id paid_at quantity sku status"
	saleFields  = "available closes_at currency name opens_at payment_window_s per_buyer_limit price reserve_on sku state total version"
)

var (
	stampText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	idText    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

// newOrder compares the fields of a response with a new order of ann for two units, and returns
// the order's id.
func newOrder(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	o, names := object(t, w.Body.String())
	id, _ := o["id"].(string)
	if names != orderFields || !idText.MatchString(id) || o["status"] != "pending_payment" || o["amount"] != 3998.0 || o["buyer"] != "ann" ||
		o["paid_at"] != nil || o["closed_at"] != nil {
		t.Errorf("order: got %s, want a new order of ann for 2 units", w.Body)
	}
	for _, name := range []string{"created_at", "expires_at"} {
		if text, _ := o[name].(string); !stampText.MatchString(text) {
			t.Errorf("field %s of the order: got %q, want a time in UTC with milliseconds", name, text)
		}
	}
	if location := w.Header().Get("Location"); location != "/v1/orders/"+id {
		t.Errorf("Location: got %s, want the order %s", location, id)
	}
	return id
}

// The responses with an order, a sale, an audit and the lists have exactly the fields of the API.
func TestAnswers(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := serve(t, s, orders.Sale{}, nil)
		f := newFront(p.Service)
		w, err := f.ask("PUT", "/v1/admin/sales/S", `{"name":"Ä thing","price":1999,"currency":"EUR","total":10,"per_buyer_limit":5,
			"opens_at":"2026-01-01T01:00:00.5+01:00","closes_at":"2100-01-01T00:00:00Z","payment_window_s":60}`)
		if err != nil || w.Code != http.StatusCreated || w.Header().Get("Location") != "/v1/sales/S" {
			t.Fatalf("PUT a new sale: got %d, error %v, want 201", w.Code, err)
		}
		o, names := object(t, w.Body.String())
		if names != saleFields || o["opens_at"] != "2026-01-01T00:00:00.500Z" || o["state"] != "open" || o["name"] != "Ä thing" || o["available"] != 10.0 {
			t.Errorf("sale: got %s, want an open sale with 10 available", w.Body)
		}
		if w, err := f.ask("GET", "/v1/sales/S", ""); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") == "" {
			t.Errorf("GET the sale: got %d, error %v, want 200 with Cache-Control", w.Code, err)
		}
		if w, _ = f.ask("GET", "/v1/sales", ""); !strings.HasPrefix(w.Body.String(), `{"sales":[{"sku":"S",`) {
			t.Errorf("list of sales: got %s, want one that begins with S", w.Body)
		}

		w, err = f.ask("POST", "/v1/orders", `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
		if err != nil || w.Code != http.StatusCreated {
			t.Fatalf("order: got %d, error %v, want 201", w.Code, err)
		}
		id := newOrder(t, w)
		replay, err := f.ask("POST", "/v1/orders", `{"quantity":2,"sku":"S"}`, "Idempotency-Key: k")
		if err != nil || replay.Code != http.StatusCreated || replay.Header().Get("Idempotent-Replayed") != "true" || replay.Body.String() != w.Body.String() {
			t.Errorf("replay: got %d %s, error %v, want 201 with %s", replay.Code, replay.Body, err, w.Body)
		}
		got, err := f.ask("GET", "/v1/orders/"+id, "")
		if err != nil || got.Body.String() != w.Body.String() {
			t.Errorf("GET the order: got %s, error %v, want %s", got.Body, err, w.Body)
		}

		w, err = f.ask("POST", "/v1/orders/"+id+"/pay", `{"payment_ref":"r"}`)
		o, names = object(t, w.Body.String())
		if paid, _ := o["paid_at"].(string); err != nil || w.Code != 200 || names != orderFields || o["status"] != "paid" || !stampText.MatchString(paid) {
			t.Errorf("pay: got %d %s, error %v, want 200 and a paid order", w.Code, w.Body, err)
		}
		for _, ref := range []string{`""`, `"a b"`, `"` + strings.Repeat("r", 129) + `"`, `1`} {
			if _, err := f.ask("POST", "/v1/orders/"+id+"/pay", `{"payment_ref":`+ref+`}`); !errors.As(err, new(*orders.InvalidError)) {
				t.Errorf("payment_ref %s: got error %v, want an invalid request", ref, err)
			}
		}
		check.Is(t, check.Err(f.ask("POST", "/v1/orders/"+id+"/cancel", "")), orders.ErrAlreadyPaid)

		bare.WaitSettled(t, p, "S")
		w, _ = f.ask("GET", "/v1/admin/sales/S/audit", "")
		if w.Body.String() != `{"sku":"S","total":10,"available":8,"queued":0,"sold":2,"paid":2,"pending":0,"restoring":0,"oversold":0,"drift":0,"balanced":true}` {
			t.Errorf("audit: got %s, want 8 available and 2 paid", w.Body)
		}
		if w, err := f.ask("POST", "/v1/admin/sales/S/rebuild", ""); err != nil || !strings.HasSuffix(w.Body.String(), `"balanced":true}`) {
			t.Errorf("rebuild: got %s, error %v, want a balanced audit", w.Body, err)
		}
		w, _ = f.ask("GET", "/v1/admin/sales/S/orders", "")
		list, _ := object(t, w.Body.String())
		row, _ := json.Marshal(list["orders"].([]any)[0])
		if o, names := object(t, string(row)); names != orderFields[:strings.Index(orderFields, "paid_at")]+"idempotency_key paid_at quantity sku status" || o["idempotency_key"] != "k" {
			t.Errorf("order in the operator's list: got %s, want the order with its key", names)
		}
	})
}

// Every call with the id of another buyer's order returns "not found", as for an id that does not
// exist or is not valid.
func TestOrderOfAnotherBuyerIsNotFound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := serve(t, s, kit.Sale("S", 10, 10), nil)
		f := newFront(p.Service)
		theirs, err := p.Place(t.Context(), shop.Placement{Buyer: "bob", SKU: "S", Quantity: 1})
		check.Must(t, err)
		id := theirs.Order.ID
		for _, id := range []string{id, "01a1f945-8d3e-761d-bbcb-7d1dab60df27", "x", "%C3%BC", "%FF", "%27%20OR%201=1", strings.Repeat("9", 3000), strings.ToUpper(id)} {
			for _, call := range []string{"GET /v1/orders/%s", "GET /v1/orders/%s?sku=S&key=k", "GET /v1/orders/%s?sku=%%C3%%BC&key=%%C3%%BC", "POST /v1/orders/%s/cancel", "POST /v1/orders/%s/pay"} {
				method, path, _ := strings.Cut(call, " ")
				if w, err := f.ask(method, fmt.Sprintf(path, id), `{"payment_ref":"r"}`); !errors.Is(err, orders.ErrNotFound) || w.Body.Len() > 0 {
					t.Errorf("%s with id %.40s: got %s, error %v, want not found", call, id, w.Body, err)
				}
			}
		}
		for _, path := range []string{"GET /v1/sales/%C3%BC", "GET /v1/sales/T", "GET /v1/admin/sales/T/audit", "GET /v1/admin/sales/%C3%BC/audit", "GET /v1/admin/sales/%C3%BC/orders", "GET /v1/admin/sales/T/orders", "POST /v1/admin/sales/T/close", "POST /v1/admin/sales/%C3%BC/close",
			"GET /v1/admin/orders/x", "GET /v1/admin/orders/%C3%BC", "GET /v1/admin/orders/01a1f945-8d3e-761d-bbcb-7d1dab60df27", "POST /v1/admin/sales/%C3%BC/rebuild"} {
			method, path, _ := strings.Cut(path, " ")
			check.Is(t, check.Err(f.ask(method, path, "")), orders.ErrNotFound)
		}
		if rows := kit.RowsOf(t, p.store.DB); rows[id].Status != orders.PendingPayment {
			t.Errorf("bob's order after ann's calls: got %+v, want %s", rows[id], orders.PendingPayment)
		}
	})
}
