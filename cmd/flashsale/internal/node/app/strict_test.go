package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// names fails the test unless the answer is a 400 that names exactly this field.
func (a answer) names(field string) {
	a.n.t.Helper()
	var p struct{ Errors []struct{ Field string } }
	_ = json.Unmarshal([]byte(a.body), &p)
	if a.status != 400 || len(p.Errors) != 1 || p.Errors[0].Field != field {
		a.n.t.Errorf("call %s: got %d %s, want 400 naming the field %s", a.call, a.status, a.body, field)
	}
}

// Programs differ in how they read a name in another case or a repeated field, so both are
// rejected.
func TestStrictBodies(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	n.put("S", 10, 9, 900)
	ann := n.token("ann", false)
	for _, c := range []struct{ name, body, field string }{
		{"a name in another case", `{"SKU":"S","sku":"S","quantity":1}`, "SKU"},
		{"a name that folds", `{"ſku":"S","sku":"S","quantity":1}`, "ſku"},
		{"a field twice", `{"sku":"T","sku":"S","quantity":1}`, "sku"},
		{"a field twice, once escaped", `{"sku":"S","\u0073ku":"S","quantity":1}`, "sku"},
		{"a field twice in a field", `{"sku":"S","quantity":{"a":1,"a":1}}`, "a"},
		{"an object", `{"sku":{"a":"}","quantity":1},"quantity":1}`, "sku"},
		{"a list", `{"quantity":1,"sku":["S",{"sku":"S"}]}`, "sku"},
		{"spaces and escapes", " \t{\n\"sku\" : \"\\\"}\\\\\" ,\r\"quantity\" : 1 } ", "sku"},
		{"null", `{"sku":"S","quantity":null}`, "quantity"},
		{"only null", `null`, "body"},
		{"no UTF-8", "{\"sku\":\"S\xff\",\"quantity\":1}", "body"},
		{"missing", `{"quantity":1}`, "sku"},
	} {
		n.send("POST", "/v1/orders", ann, c.body).names(c.field)
	}
	n.send("POST", "/v1/orders", ann, `{"\u0073k\u0075":"S","quantity":1}`).want(201)
	id := strings.TrimPrefix(n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`).header.Get("Location"), "/v1/orders/")
	for _, body := range []string{`{"payment_ref":"a","payment_ref":"b"}`, `{"Payment_Ref":"a","payment_ref":"a"}`, `{"payment_ref":null}`, `{}`, `{"payment_ref":"ä"}`, `{"payment_ref":"a b"}`} {
		if a := n.send("POST", "/v1/orders/"+id+"/pay", ann, body); a.status != 400 || !strings.Contains(strings.ToLower(a.body), "payment_ref") {
			t.Errorf("payment with the body %s: got %d %s, want 400 naming payment_ref", body, a.status, a.body)
		}
	}
	for media, want := range map[string]int{
		"application/json; charset=utf-16": 415, "application/json; charset=latin1": 415, "application/json;charset=UTF-8": 201, "application/json": 201,
	} {
		if a := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`, "Content-Type: "+media); a.status != want {
			t.Errorf("order with the media type %s: got %d %s, want %d", media, a.status, a.body, want)
		}
	}
	// With two Content-Type headers, the type of the body is ambiguous.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL()+"/v1/orders", strings.NewReader(`{"sku":"S","quantity":1}`))
	check.Must(t, err)
	req.Header["Content-Type"] = []string{"application/json", "text/plain"}
	req.Header.Set("Authorization", "Bearer "+ann)
	res, err := http.DefaultClient.Do(req)
	check.Must(t, err)
	_ = res.Body.Close()
	if res.StatusCode != 415 {
		t.Errorf("order with two media types: got %d, want 415", res.StatusCode)
	}
}

// A missing field is not 0. Otherwise a sale without a price would be free, and a PUT
// without a total would cut the stock.
func TestTermsAreRequired(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	op := n.token("op", true)
	put := func(sku string, change func(map[string]any)) answer {
		return n.send("PUT", "/v1/admin/sales/"+sku, op, terms(t, change))
	}
	n.put("S", 10, 2, 900).want(201)
	for _, field := range []string{"name", "price", "currency", "total", "per_buyer_limit", "opens_at", "closes_at", "payment_window_s"} {
		put("S", func(m map[string]any) { delete(m, field) }).names(field)
		put("S", func(m map[string]any) { m[field] = nil }).names(field)
	}
	for _, value := range []any{nil, ""} {
		put("S", func(m map[string]any) { m["reserve_on"] = value }).names("reserve_on")
	}
	for _, at := range []string{"2026-01-01T1:00:00Z", "2026-01-01T01:00:00,5Z", "2026-01-01t01:00:00z", "2026-01-01 01:00:00Z", "2026-01-01T01:00:00+24:00", ""} {
		put("S", func(m map[string]any) { m["opens_at"] = at }).names("opens_at")
	}
	n.send("GET", "/v1/sales/S", "", "").contains(`"price":1999,"currency":"EUR","total":10,`)
	put("S", func(m map[string]any) { m["name"] = strings.Repeat("ü", 200) }).want(200)
	put("S", func(m map[string]any) { m["name"] = strings.Repeat("ü", 201) }).names("name")
}

// Proxies and browsers rewrite a path with . or .. so these are not valid SKUs.
func TestDotSKUsAreRejected(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	op := n.token("op", true)
	for _, sku := range []string{".", "..", "%2e", "%2E%2e"} {
		n.send("PUT", "/v1/admin/sales/"+sku, op, terms(t, nil)).names("sku")
		for _, call := range []string{"GET /v1/sales/%s", "GET /v1/admin/sales/%s/audit", "GET /v1/admin/sales/%s/orders", "POST /v1/admin/sales/%s/rebuild", "GET /v1/live?sku=%s"} {
			method, path, _ := strings.Cut(call, " ")
			n.send(method, fmt.Sprintf(path, sku), op, "").want(404)
		}
	}
	n.send("POST", "/v1/orders", n.token("ann", false), `{"sku":"..","quantity":1}`).want(404)
}
