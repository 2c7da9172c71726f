package app

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The stream of a sale is public and begins with the history of the sale. Only operators can
// open the stream of the overview, which has all sales with their audits and all nodes.
func TestWatch(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		one, two := start(t, s, often("one")), start(t, s, often("two"))
		one.put("S", 3, 2, 900).ok()
		anybody := watch(t, one.URL(), "S", "")
		operator := watch(t, two.URL(), "", two.token("op", true))
		anybody.until("the sale is open", "sale", func(e seen) bool {
			return e.Sale.State == "open" && e.Sale.Available == 3 && e.Sold == 0 && e.Exact && len(e.Missing) == 0
		})
		operator.until("both nodes in the overview", "overview", func(e seen) bool { return len(e.Nodes) == 2 })

		// Rates cover one second, so the requests continue until the stream shows them.
		ann := one.token("ann", false)
		enough := repeatedly(t, func() { one.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":2}`, "Idempotency-Key: k") })
		operator.until("an order that was placed on the other node", "overview", func(e seen) bool {
			i := slices.IndexFunc(e.Nodes, func(n seenNode) bool { return n.Node == "one" })
			return e.All.Accepted > 0 && i >= 0 && !e.Nodes[i].Here && e.Nodes[i].Accepted > 0
		})
		enough()
		operator.until("the law of conservation", "overview", func(e seen) bool {
			if len(e.Sales) != 1 || e.Sales[0].Balance == nil {
				return false
			}
			sale := e.Sales[0]
			b := sale.Balance
			return sale.Sale.SKU == "S" && sale.Sold == 2 && sale.Paid == 0 && (sale.Keeper == "one" || sale.Keeper == "two") && b.Total == 3 && b.Available == 1 && b.Sold == 2 && b.Queued == 0 && b.Restoring == 0 && b.Drift == 0
		})
		bob := two.token("bob", false)
		enough = repeatedly(t, func() { two.send("POST", "/v1/orders", bob, `{"sku":"S","quantity":1}`) })
		operator.until("refusals", "overview", func(e seen) bool { return e.All.Refused > 0 })
		enough()
		anybody.until("sold out", "sale", func(e seen) bool { return e.Sale.State == "sold_out" && e.Sold == 3 })
		if e, _ := anybody.next(); e.event != "sale" || e.All.Accepted != 0 || e.Nodes != nil {
			t.Errorf("first event of the public stream: got %+v, want a sale event without accepted orders and nodes", e)
		}

		// A new stream first receives the history, which contains the units sold so far.
		late := watch(t, one.URL(), "S", "")
		history, _ := late.next()
		if points, marks := history.Points, history.Marks; history.event != "history" || history.SKU != "S" || len(points) < 2 || len(marks) < 1 ||
			points[0].Available != 3 || points[0].Sold != 0 || points[len(points)-1].Sold != 3 || marks[0].What != "opened" || marks[0].Units != 3 {
			t.Errorf("history at the start of a stream: got %+v, want sale S from 3 available to 3 sold, marked as opened", history)
		}
		first, _ := late.next()
		second, _ := late.next()
		if first.event != "sale" || first.ID == 0 || second.ID != first.ID+1 {
			t.Errorf("events after the history: got %q %d and %q %d, want two successive events of type sale", first.event, first.ID, second.event, second.ID)
		}
		two.put("S", 5, 2, 900).ok()
		restocked := late.until("the restock", "sale", func(e seen) bool { return len(e.Marks) > 0 })
		if m := restocked.Marks; len(m) != 1 || m[0].What != "restocked" || m[0].Units != 2 {
			t.Errorf("marks after a restock: got %+v, want restocked 2", m)
		}
	})
}

// A stream needs an existing sale, an operator's token for the overview, and a request that
// the address's limit admits.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.LimitIP = parseLimit(t, "1/m:6") })
	n.put("S", 3, 2, 900)
	for _, c := range []struct {
		name, path, token string
		status            int
		code              string
	}{
		{"no sale", "/v1/live?sku=none", "", 404, "not_found"},
		{"the overview", "/v1/live", "", 401, "unauthorized"},
		{"the overview, by a buyer", "/v1/live", n.token("ann", false), 403, "forbidden"},
		{"a buyer's token", "/v1/live?sku=S", n.token("ann", false), 403, "forbidden"},
		{"garbage", "/v1/live?sku=S", "x.y.z", 401, "unauthorized"},
		{"the address's limit", "/v1/live?sku=none", "", 404, "not_found"},
		{"the address's limit", "/v1/live?sku=none", "", 429, "rate_limited"},
	} {
		if a := n.send("GET", c.path, c.token, ""); a.status != c.status || a.code() != c.code {
			t.Errorf("stream %s: got %d %s, want %d %s", c.name, a.status, a.body, c.status, c.code)
		}
	}
	n.send("POST", "/demo/token", "", "").want(404) // the node is not a demo
}

// The number of streams per network is limited, of buyers and of operators separately. Other
// networks are not affected.
func TestWatchersPerAddress(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	n.put("S", 3, 2, 900)
	var last *stream
	for i := range 20 {
		w, err := tryWatch(t, n.URL(), "S", "", fmt.Sprintf("X-Forwarded-For: 2001:db8:1:2::%x", i)) // one /64 network
		check.Must(t, err)
		last = w
	}
	const here = "X-Forwarded-For: 2001:db8:1:2:f::"
	if a := n.send("GET", "/v1/live?sku=S", "", "", here); a.status != 429 || a.code() != "rate_limited" || a.header.Get("Retry-After") == "" {
		t.Errorf("stream 21 of one address: got %d %v %s, want 429 rate_limited with Retry-After", a.status, a.header, a.body)
	}
	op := n.token("op", true)
	for range 20 {
		check.OK(t, check.Err(tryWatch(t, n.URL(), "S", op, here)))
	}
	n.send("GET", "/v1/live", op, "", here).want(429, "rate_limited")
	for _, token := range []string{"", op} {
		check.OK(t, check.Err(tryWatch(t, n.URL(), "S", token, "X-Forwarded-For: 192.0.2.1")))
	}
	_ = last.body.Close()
	check.Eventually(t, "a closed stream frees its place", func() bool { return check.Err(tryWatch(t, n.URL(), "S", "", here)) == nil })
}

// A node that stops ends its streams at once, however long it may drain.
func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Drain = time.Hour })
	n.put("S", 3, 2, 900)
	w := watch(t, n.URL(), "S", "")
	w.until("a snapshot", "sale", func(seen) bool { return true })
	check.OK(t, n.stop())
	w.ends()
}

// The stream of a sale that is deleted from the database ends.
func TestStreamOfDeletedSaleEnds(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, often("one"))
	n.put("S", 3, 2, 900)
	w := watch(t, n.URL(), "S", "")
	w.until("a snapshot", "sale", func(seen) bool { return true })
	db, err := sql.Open("sqlite", strings.TrimPrefix(s.SQL, "sqlite:")+"?_pragma=busy_timeout(30000)")
	check.Must(t, err)
	defer func() { _ = db.Close() }()
	check.Must(t, check.Err(db.ExecContext(t.Context(), "DELETE FROM sales")))
	w.ends()
}
