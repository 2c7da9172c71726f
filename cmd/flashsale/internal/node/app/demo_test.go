package app

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A demo creates a sale and gives tokens to all callers.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, func(c *Config) { c.Demo = true })
	sale := func() (sale struct {
		SKU, State       string
		Total, Available int64
	}) {
		n.send("GET", "/v1/sales/demo", "", "").into(t, &sale)
		return sale
	}
	check.Eventually(t, "there is a demo sale", func() bool { return sale().SKU == "demo" })
	if got := sale(); got.Total != 1000 || got.Available != 1000 {
		t.Errorf("demo sale: got %+v, want 1000 units", got)
	}
	type pass struct{ Token, Subject, Role string }
	ask := func(role string) (p pass) {
		n.send("POST", "/demo/token?role="+role, "", "").into(t, &p)
		return p
	}
	ann, bob, op := ask("buyer"), ask("buyer"), ask("operator")
	if ann.Subject == bob.Subject || ann.Role != "buyer" {
		t.Errorf("tokens of two buyers: got %+v, %+v, want different subjects", ann, bob)
	}
	check.Eventually(t, "an order is accepted, or the sale is not open yet", func() bool {
		a := n.send("POST", "/v1/orders", ann.Token, `{"sku":"demo","quantity":1}`)
		return a.status == 201 || a.code() == "not_open"
	})
	n.send("GET", "/v1/admin/sales/demo/audit", ann.Token, "").want(403)
	n.send("GET", "/v1/admin/sales/demo/audit", op.Token, "").want(200)
	n.send("POST", "/demo/token?role=king", "", "").want(400).contains(`"field":"role"`)

	// A demo creates its next sale only after the previous one is over.
	if created, err := n.createDemoSale(t.Context()); err != nil || created != nil {
		t.Errorf("second demo sale while the first is open: got %+v, error %v, want neither", created, err)
	}
	n.put("demo", 1000, 1, 1, window(-2*time.Hour, -time.Hour)).ok()
	if created, err := n.createDemoSale(t.Context()); err != nil || created == nil || created.SKU != "demo-2" {
		t.Errorf("demo sale after the first has ended: got %+v, error %v, want sale demo-2", created, err)
	}
}

// The page loads no other file, and its Content-Security-Policy is strict.
func TestPage(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo = true })
	a := n.send("GET", "/", "", "")
	policy := a.header.Get("Content-Security-Policy")
	if a.status != 200 || !a.has("data-demo") || !strings.HasPrefix(policy, "default-src 'none'; connect-src 'self'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("page of the shop: got status %d with policy %q, want 200 with a strict policy", a.status, policy)
	}
	for _, external := range []string{"src=", "@import", "url(", "https://"} {
		if a.has(external) {
			t.Errorf("page of the shop: got the text %q, want no reference to another host", external)
		}
	}
}
