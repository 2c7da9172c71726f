package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
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
