package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// version returns the version of a sale in quotes, as If-Match needs it.
func (a answer) version() string {
	a.n.t.Helper()
	var sale struct{ Version string }
	if a.into(a.n.t, &sale); sale.Version == "" {
		a.n.t.Errorf("call %s: got %d %s, want a sale with a version", a.call, a.status, a.body)
	}
	return `"` + sale.Version + `"`
}

// A cache would answer 304 and keep an old stock if one validator stood for two contents.
func TestValidatorsCoverTheContent(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	n.put("S", 1, 1, 900).want(201)
	read := func(path string) answer { return n.send("GET", path, "", "").want(200) }
	first := map[string]answer{"/v1/sales/S": read("/v1/sales/S"), "/v1/sales": read("/v1/sales")}
	n.sold("S", "ann")
	for path, before := range first {
		var after answer
		check.Eventually(t, "the last unit is sold", func() bool { after = read(path); return after.has(`"available":0`) })
		for _, name := range []string{"ETag", "Last-Modified"} {
			if tag := after.header.Get(name); tag != "" && tag == before.header.Get(name) {
				t.Errorf("GET %s: got %s %s for %s and for %s, want one content for each", path, name, tag, before.body, after.body)
			}
		}
		if path != "/v1/sales" && before.version() != after.version() {
			t.Errorf("version of the sale: got %s before and %s after units were sold, want no change", before.version(), after.version())
		}
	}
}

// Operators change a sale only in the version that they have read. No header of an answer is part
// of that, because proxies change headers.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	op := n.token("op", true)
	put := func(header ...string) answer {
		return n.send("PUT", "/v1/admin/sales/S", op, terms(t, nil), header...).known()
	}
	put("If-Match: *").want(412, "precondition_failed")
	old := put("If-None-Match: *").want(201).version()
	put("If-None-Match: *").want(412, "precondition_failed")
	put(`If-None-Match: "x"`).want(400, "invalid_request").contains(`"field":"If-None-Match"`)
	version := put("If-Match: " + old).want(200).version()
	put("If-Match: "+old).want(412, "precondition_failed")
	n.send("POST", "/v1/admin/sales/S/close", op, "", "If-Match: "+old).want(412, "precondition_failed")
	check.Eventually(t, "the public answer has the new version", func() bool { return n.send("GET", "/v1/sales/S", "", "").known().version() == version })
	closed := n.send("POST", "/v1/admin/sales/S/close", op, "", "If-Match: "+version).want(200).contains(`"state":"closed"`).version()
	put("If-Match: " + closed).want(200)
}

// A malformed order takes a token of its address, because its answer costs more than a refusal. A
// well-formed order takes one token, too.
func TestMalformedOrdersAreLimited(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.LimitIP = parseLimit(t, "1/h:3") })
	n.put("S", 10, 5, 900)
	ann := n.token("ann", false)
	for name, c := range map[string]struct {
		body, header string
		status       int
	}{
		"unknown field": {`{"x":1}`, "", 400}, "bad quantity": {`{"sku":"S","quantity":0}`, "", 400}, "no JSON": {`{`, "", 400},
		"bad key": {`{"sku":"S","quantity":1}`, "Idempotency-Key: a b", 400}, "media type": {`{"sku":"S","quantity":1}`, "Content-Type: text/plain", 415},
		"encoding": {`{"sku":"S","quantity":1}`, "Content-Encoding: gzip", 415}, "well-formed": {`{"sku":"S","quantity":1}`, "Content-Encoding: identity", 201},
	} {
		ip := nextAddress()
		var statuses []int
		for range 4 {
			a := n.send("POST", "/v1/orders", ann, c.body, "X-Forwarded-For: "+ip, cmp.Or(c.header, "Accept: */*"))
			if statuses = append(statuses, a.status); a.status == 429 && a.header.Get("Retry-After") == "" {
				t.Errorf("refused order, %s: got %v, want Retry-After", name, a.header)
			}
		}
		if got, want := fmt.Sprint(statuses), fmt.Sprint([]int{c.status, c.status, c.status, 429}); got != want {
			t.Errorf("four orders of an address, %s: got %s, want %s", name, got, want)
		}
	}
}

// The answer to a body with many faults is small. It lists ten of them.
func TestTenFaultsAreListed(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	op := n.token("op", true)
	var fields []string
	for i := range 500 {
		fields = append(fields, fmt.Sprintf(`"%x":1`, i))
	}
	for _, c := range []struct {
		call, body string
		faults     int
	}{
		{"POST /v1/orders", "{" + strings.Join(fields, ",") + "}", 10},
		{"PUT /v1/admin/sales/S", "{" + strings.Join(fields[:300], ",") + "}", 10},
		{"PUT /v1/admin/sales/..", `{"description":"` + strings.Repeat("x", 501) + `","image_url":"x","reserve_on":"x"}`, 10},
		{"POST /v1/orders", `{"` + strings.Repeat("<", 3000) + `":1}`, 3},
		{"POST /v1/orders", `{"` + strings.Repeat("<", 1500) + `":1,"` + strings.Repeat("<", 1500) + `":1}`, 1},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		var p struct{ Errors []struct{ Field string } }
		a := n.send(method, path, op, c.body).want(400, "invalid_request")
		if a.into(t, &p); len(p.Errors) != c.faults || len(a.body) > 4<<10 {
			t.Errorf("%s with %d bytes: got %d faults in %d bytes, want %d in at most 4 kB", c.call, len(c.body), len(p.Errors), len(a.body), c.faults)
		}
	}
}

// HEAD is answered like GET, without the body. Answers to one caller must not be stored, and no
// browser may guess another type for JSON.
func TestHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), withChanges)
	n.put("S", 10, 5, 900)
	id := n.sold("S", "ann").id()
	doc, err := openapi3.NewLoader().LoadFromData(web.OpenAPI)
	check.Must(t, err)
	for path, item := range doc.Paths.Map() {
		if item.Get == nil {
			continue
		}
		token := n.token("ann", false)
		if strings.HasPrefix(path, "/v1/admin/") {
			token = n.token("op", true)
		}
		path := strings.NewReplacer("{sku}", "S", "{id}", id, "{file}", "docs.css").Replace(path)
		query := map[string]string{"/v1/admin/orders": "?buyer=ann", "/v1/live": "?sku=S"}[path]
		if path == "/v1/live" { // its GET does not end
			token = ""
		}
		head := n.send("HEAD", path+query, token, "")
		if head.want(200); path == "/v1/live" {
			if head.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("HEAD %s: got %v, want the type of the stream", path, head.header)
			}
			continue
		}
		get := n.send("GET", path+query, token, "").want(200)
		for _, name := range []string{"Content-Type", "Cache-Control", "X-Content-Type-Options"} {
			if head.header.Get(name) != get.header.Get(name) {
				t.Errorf("%s of %s: got %q for HEAD and %q for GET, want the same", name, path, head.header.Get(name), get.header.Get(name))
			}
		}
		if head.body != "" {
			t.Errorf("HEAD %s: got the body %s, want none", path, head.body)
		}
		if get.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: got %v, want nosniff", path, get.header)
		}
		if private := strings.HasPrefix(path, "/v1/orders") || strings.HasPrefix(path, "/v1/admin/"); private && get.header.Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s: got Cache-Control %q, want no-store", path, get.header.Get("Cache-Control"))
		}
	}
	// A cache may keep a 404 without Cache-Control, and then hide a sale that is created later.
	for _, a := range []answer{n.send("GET", "/v1/sales/T", "", "").want(404), n.send("GET", "/v1/orders", "", "").want(401), n.order("S", "bob").want(201)} {
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("call %s: got %v, want no-store and nosniff", a.call, a.header)
		}
	}
	n.send("HEAD", "/v1/admin/sales/S/close", n.token("op", true), "").want(405)
}

// Behind a path prefix, Location has the prefix that a trusted proxy names.
func TestLocationBehindAPrefix(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, func(c *Config) { c.TrustedProxies = []string{"192.0.2.1", "127.0.0.0/8"} })
	for i, c := range []struct{ sent, want string }{
		{"/shop", "/shop/v1/"}, {"/a/b-c.d/", "/a/b-c.d/v1/"}, {"/", "/v1/"}, {"shop", "/v1/"}, {"//example.com", "/v1/"}, {"//example", "/v1/"}, {"/a//b", "/v1/"}, {"/a,/b", "/v1/"}, {"/a/../b", "/v1/"}, {"/a?b", "/v1/"},
	} {
		sku := fmt.Sprint("S", i)
		op := n.token("op", true)
		where := n.send("PUT", "/v1/admin/sales/"+sku, op, terms(t, nil), "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Prefix: "+c.sent).want(201).where()
		check.Eventually(t, sku+" can be ordered", func() bool { return n.order(sku, "bob").status == 201 })
		for _, header := range []string{"Prefer: respond-async", "Prefer: wait=9"} {
			order := n.orderBy(sku, "ann", header[len(header)-1:], header, "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Prefix: "+c.sent).ok().where()
			if !strings.HasPrefix(order, c.want+"orders/") || where != c.want+"sales/"+sku {
				t.Errorf("Location with the prefix %s: got %s and %s, want both to begin with %s", c.sent, order, where, c.want)
			}
		}
	}
	for proxy, want := range map[string]string{"127.0.0.1": "/shop/v1/orders/", "198.51.100.0/24": "/v1/orders/"} {
		other := start(t, s, func(c *Config) { c.TrustedProxies = []string{proxy} })
		check.Eventually(t, "an order through another node", func() bool {
			a := other.orderBy("S0", "eve-"+proxy[:3], "k", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Prefix: /shop")
			if a.status < 300 && !strings.HasPrefix(a.where(), want) {
				t.Errorf("Location if %s is trusted: got %s, want it to begin with %s", proxy, a.where(), want)
			}
			return a.status < 300
		})
	}
}

// The text of a refusal names what has happened. A buyer could invent any number of payment
// references, so an order has ten claims at most.
func TestTextOfOrderClosed(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	n.put("S", 10, 5, 900)
	where := n.sold("S", "ann").where()
	n.cancel("ann", where).want(200)
	detail := func(a answer) string {
		var p struct{ Detail string }
		a.want(409, "order_closed").into(t, &p)
		return p.Detail
	}
	for i := range 11 {
		text := detail(n.pay("ann", where, fmt.Sprint("r", i)))
		if recorded := strings.Contains(text, "a refund claim is recorded"); recorded != (i < 10) {
			t.Errorf("payment %d of a cancelled order: got the text %q, want it to say that a claim is recorded: %t", i, text, i < 10)
		}
	}
	if claims := strings.Count(n.send("GET", "/v1/admin/refunds?limit=100", n.token("op", true), "").want(200).body, `"payment_ref"`); claims != 10 {
		t.Errorf("refund claims of one order: got %d, want 10", claims)
	}
	expired := n.orderBy("S", "ann", "k2").want(201).where()
	check.Must(t, n.store.DB.Exec("UPDATE orders SET status = 'expired', closed_at = expires_at WHERE id = ?", strings.TrimPrefix(expired, "/v1/orders/")).Error)
	if text := detail(n.cancel("ann", expired)); strings.Contains(text, "claim") {
		t.Errorf("cancellation of an expired order: got the text %q, want no word of a claim", text)
	}
}

// Sales that ended more than a day ago are in the operators' list only.
func TestSalesThatEndedLongAgo(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	op := n.token("op", true)
	for _, sku := range []string{"c", "a", "b", "old"} {
		n.put(sku, 10, 5, 900).want(201)
	}
	check.Must(t, n.store.DB.Exec("UPDATE sales SET mode = 'over', opens_at = '2020-01-01 00:00:00', closes_at = '2020-01-02 00:00:00' WHERE sku = 'old'").Error)
	check.Eventually(t, "the public list omits the sale", func() bool { return !n.send("GET", "/v1/sales", "", "").want(200).has(`"old"`) })
	var pages []string
	for cursor := ""; len(pages) == 0 || cursor != "" && len(pages) < 9; {
		var page struct {
			Sales []json.RawMessage
			Next  string `json:"next_cursor"`
		}
		n.send("GET", "/v1/admin/sales?over=true&limit=3&cursor="+cursor, op, "").want(200).into(t, &page)
		skus := ""
		for _, raw := range page.Sales {
			var sale struct{ SKU, State, Version string }
			check.Must(t, json.Unmarshal(raw, &sale))
			if skus += sale.SKU + " "; (sale.State == "closed") != (sale.SKU == "old") || sale.Version == "" {
				t.Errorf("sale in the operators' list: got %s, want only the old one closed", raw)
			}
		}
		pages, cursor = append(pages, skus), page.Next
	}
	if got := strings.Join(pages, "| "); got != "a b c | old " {
		t.Errorf("pages of all sales: got %s, want a b c | old", got)
	}
	for _, query := range []string{"", "?over=false"} {
		n.send("GET", "/v1/admin/sales"+query, op, "").want(200).contains(`"a"`, `"b"`, `"c"`, `"next_cursor":""`)
		if a := n.send("GET", "/v1/admin/sales"+query, op, "").known(); a.has(`"old"`) {
			t.Errorf("operators' list %q: got %s, want no sale that ended long ago", query, a.body)
		}
	}
	for _, query := range []string{"?over=1", "?limit=0", "?limit=1001", "?cursor=%C3%BC", "?cursor=a%20b"} {
		n.send("GET", "/v1/admin/sales"+query, op, "").want(400, "invalid_request")
	}
	n.send("GET", "/v1/admin/sales", n.token("ann", false), "").want(403)
	n.send("GET", "/v1/sales/old", "", "").want(200).contains(`"state":"closed"`)
}
