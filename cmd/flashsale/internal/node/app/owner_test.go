package app

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/controller"
	"flashsale/orders/store"
)

// copyRows copies all rows of the database of from to that of to.
func copyRows(t *testing.T, from, to *servers.Stores) {
	t.Helper()
	db := func(s *servers.Stores) *store.Store {
		st, err := store.Open(s.SQL, store.Config{})
		check.Must(t, err)
		t.Cleanup(func() { _ = st.Close() })
		check.Must(t, check.Err(st.Migrate(t.Context())))
		return st
	}
	source, target := db(from), db(to)
	var sales []orders.Sale
	var rows []orders.Order
	var nodes []store.Node
	for _, list := range []any{&sales, &rows, &nodes} {
		check.Must(t, source.DB.Find(list).Error)
		check.Must(t, target.DB.Create(list).Error)
	}
}

// Staging runs on a copy of production's database, on production's Redis, with the names of
// production's nodes. Staging does not start. Production restarts meanwhile, keeps its orders,
// and reports staging.
func TestCopyOfDatabaseOnSameRedis(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		log := check.Output(t)
		named := func(c *Config) { c.Node, c.Log = "node-1", slog.New(slog.NewTextHandler(log, nil)) }
		production := start(t, s, named)
		production.put("S", 100, 9, 900)
		before := production.sold("S", "ann")
		staging := servertest.WithOtherSQL(t, s)
		copyRows(t, s, staging)
		cfg := testConfig(t, staging)
		cfg.Node, cfg.Lease = "node-1", time.Second // do not wait for the end of the copied heartbeat
		second, err := New(cfg)
		check.Must(t, err)
		err = second.Run(check.Context(t))
		if !errors.Is(err, controller.ErrShared) || !strings.Contains(err.Error(), "--namespace") || !strings.Contains(err.Error(), "node-1 of the database") {
			t.Errorf("start of staging: got error %v, want one that names the owner of Redis and --namespace", err)
		}
		select {
		case <-second.Ready():
			t.Error("staging: got it ready, want it never ready")
		default:
		}
		check.Eventually(t, "production reports staging", func() bool {
			a := production.send("GET", "/readyz", "", "")
			return a.status == 200 && a.has(`"degraded"`, "nodes of another database use this Redis: node node-1 of the database")
		})
		if n := production.metric("flashsale_redis_shared"); n != 1 {
			t.Errorf("flashsale_redis_shared: got %v, want 1", n)
		}
		if !strings.Contains(log.String(), `level=ERROR msg="nodes of another database use this Redis`) {
			t.Error("log of production: got no error about staging, want one")
		}
		check.Must(t, production.stop())
		production = start(t, s, named)
		production.order("S", "ann").replays(before)
		production.pay("bob", production.sold("S", "bob").where(), "r").want(200)
		production.audited("S", `"queued":0,"sold":2`, `"balanced":true`)
	})
}

// Installations with different namespaces share a Redis, with the same SKU and the same buyers. No
// name in Redis is in two namespaces.
func TestNamespacesDoNotMeet(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := map[string]*node{}
		for name, stores := range map[string]*servers.Stores{"": s, "a": servertest.WithOtherSQL(t, s), "b": servertest.WithOtherSQL(t, s)} {
			nodes[name] = start(t, stores, func(c *Config) {
				c.Namespace, c.Node, c.LimitBuyer = name, "same", parseLimit(t, "100/h:100")
			})
		}
		stock := map[string]int{"": 1, "a": 2, "b": 3}
		for name, n := range nodes {
			n.put("S", stock[name], 9, 900).ok()
		}
		for round := 1; round <= 4; round++ {
			for name, n := range nodes {
				key := string(rune('0' + round))
				if round <= stock[name] {
					n.orderBy("S", "ann", key).want(201)
				} else {
					n.orderBy("S", "ann", key).want(409, "sold_out")
				}
			}
		}
		rdb := openRedis(t, s.RedisURL)
		kinds := map[string]map[string]bool{}
		keys, err := rdb.Keys(t.Context(), "*").Result()
		check.Must(t, err)
		channels, err := rdb.PubSubChannels(t.Context(), "*").Result()
		check.Must(t, err)
		for _, key := range append(keys, channels...) {
			name, rest := "", key
			if before, after, _ := strings.Cut(key, ":"); before == "a" || before == "b" {
				name, rest = before, after
			}
			if kinds[name] == nil {
				kinds[name] = map[string]bool{}
			}
			kind, _, _ := strings.Cut(rest, "{")
			if strings.HasPrefix(kind, "lock-client:") {
				kind = "lock-client:"
			}
			kinds[name][kind] = true
		}
		want := []string{"lock-client:", "lock:", "orders:hint", "orders:notice:same", "probe:", "rate:", "sale:", inventory.WakeChannel}
		for name := range nodes {
			if got := slices.Sorted(maps.Keys(kinds[name])); !slices.Equal(got, want) {
				t.Errorf("names in the namespace %q: got %q, want %q, from the keys %q and the channels %q", name, got, want, keys, channels)
			}
		}
		for _, n := range nodes {
			n.send("GET", "/readyz", "", "").want(200).contains(`"ok"`)
			n.audited("S", `"available":0,"queued":0`, `"balanced":true`)
		}
	})
}
