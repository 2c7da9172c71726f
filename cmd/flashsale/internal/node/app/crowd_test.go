package app

import (
	"errors"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/gentle"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// An operator of a demo can send one crowd at a time, to any sale but that of a load test. A crowd
// ends on request, with its sale, and when the node stops.
func TestDemoCrowd(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, func(c *Config) { c.Demo = true })
	op := n.token("op", true)
	send := func() answer { return n.send("POST", "/demo/crowd", op, "") }
	come := func(what string) { check.Eventually(t, what, func() bool { return send().status == 202 }) }

	n.send("POST", "/demo/crowd", "", "").want(401)
	n.send("POST", "/demo/crowd", n.token("ann", false), "").want(403)
	n.put("other", 10, 1, 900) // not the demo's
	n.put("judged", 10, 1, 900, func(all map[string]any) { all["name"] = "Load test: J" })
	for _, sku := range []string{"judged", "none"} {
		n.send("POST", "/demo/crowd?sku="+sku, op, "").want(404)
	}
	n.put(demoSKU, 1000, 2, 2, window(-time.Hour, time.Hour)).ok()
	check.Eventually(t, "a crowd comes that does not buy everything within two minutes", func() bool {
		return send().has(`{"sku":"demo","orders_per_second":6,"seconds":300}`)
	})
	send().want(409, "in_progress").contains("A demo crowd is already running: it buys from demo for another ", " min.")
	for sku, event := range map[string]string{"": "overview", "other": "sale"} {
		watch(t, n.URL(), sku, op).until("the crowd of the demo", event, func(e seen) bool {
			left := e.Crowd.Until.Sub(e.Now)
			return e.Crowd.SKU == demoSKU && left > 0 && left <= gentle.Duration
		})
	}
	_, err := n.crowd.Start(t.Context(), "other")
	if e, ok := errors.AsType[*web.CrowdRunningError](err); !ok || e.SKU != demoSKU || e.Left <= 0 || e.Left > gentle.Duration {
		t.Errorf("start of a second crowd: got error %v, want one with the sale and the time left of the first", err)
	}
	check.Eventually(t, "the crowd orders, pays and cancels", func() bool {
		rows := n.send("GET", "/v1/admin/sales/demo/orders", op, "")
		return rows.has(`"paid"`, `"cancelled"`)
	})

	n.send("DELETE", "/demo/crowd", op, "").want(204)
	come("another crowd comes after the first was ended")
	for range 20 {
		n.crowd.Stop()
		check.Eventually(t, "the first crowd leaves, and another crowd comes", func() bool { _, err := n.crowd.Start(t.Context(), demoSKU); return err == nil })
	}
	n.put(demoSKU, 1000, 2, 2, window(-time.Hour, -time.Minute)).ok()
	check.Eventually(t, "no sale of the demo is open", func() bool { return send().status == 404 })
	n.put(demoSKU+"-2", 1000, 2, 2).ok()
	check.Eventually(t, "a crowd comes to the sale that it is sent to", func() bool {
		return n.send("POST", "/demo/crowd?sku=other", op, "").has(`{"sku":"other","orders_per_second":1,`)
	})
	check.Eventually(t, "the crowd orders", func() bool { a := n.audit("other"); return a.has(`"total":10`) && !a.has(`"available":10`) })
	n.send("DELETE", "/demo/crowd", op, "").want(204)
	begun := time.Now()
	come("another crowd comes after the sale of the first is over")
	check.Must(t, n.stop()) // a crowd is still ordering
	if time.Since(begun) >= gentle.Duration {
		t.Error("stop of the node: it waited for the end of its crowd, want a stop at once")
	}

	n = start(t, s, nil)
	n.send("POST", "/demo/crowd", n.token("op", true), "").want(404)
}
