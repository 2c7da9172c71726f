package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A sale ended long ago, but its queue still has orders. A keeper keeps the sale until all of
// them are decided, all units are released, and the gate has the new closing time.
func TestEndedSaleIsKeptUntilSettled(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	via, w := servertest.RedisVia(t, s)
	n := start(t, via, func(c *Config) { quick(c); c.Lease = 20 * time.Second })
	n.put("S", 100, 1, 900)
	n.put("T", 100, 1, 900) // stays open
	held := w.HoldAll(func(sent []byte) bool {
		return bytes.Contains(bytes.ToLower(sent), []byte("xrange")) && bytes.Contains(sent, []byte("sale:{S}"))
	})
	var where []string
	for i := range 5 {
		where = append(where, n.order("S", fmt.Sprint("buyer-", i), "Prefer: respond-async").want(202).where())
	}
	over := terms(t, func(all map[string]any) { window(-72*time.Hour, -48*time.Hour)(all); all["total"] = 100 })
	// A 503 means that the change is stored but not yet at the gate.
	if a := n.send("PUT", "/v1/admin/sales/S", n.token("operator", true), over); a.status != 503 && a.status != 200 {
		t.Errorf("change of an ended sale: got %d %s, want 503 or 200", a.status, a.body)
	}
	held.Drop()
	for i, path := range where {
		check.Eventually(t, path+" is no longer reserved", func() bool {
			a := n.send("GET", path, n.token(fmt.Sprint("buyer-", i), false), "")
			return a.status != 200 || !a.has(`"reserved"`)
		})
	}
	for i := range where { // the keeper stays until the cancelled units are released
		var page struct{ Orders []struct{ ID string } }
		buyer := n.token(fmt.Sprint("buyer-", i), false)
		n.send("GET", "/v1/orders", buyer, "").into(t, &page)
		for _, o := range page.Orders {
			n.send("POST", "/v1/orders/"+o.ID+"/cancel", buyer, "")
		}
	}
	check.Eventually(t, "only T is kept, and all units of S are available", func() bool {
		audit := n.audit("S").body
		return n.kept() == 1 && strings.Contains(audit, `"available":100,"queued":0,"sold":0`)
	})
}

// If the database is down, each background loop logs its first failure, counts all failures,
// and logs when it works again.
func TestLoopFailuresAreLogged(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	via, w := servertest.SQLVia(t, s)
	log := check.Output(t)
	logged := func(what string) int { return strings.Count(log.String(), what) }
	n := start(t, via, func(c *Config) { quick(c); c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	n.put("S", 100, 1, 900)
	loops := []string{"sweeper", "resync", "heartbeat", "catalog"}
	failures := func(loop string) float64 {
		return n.metric(`flashsale_loop_failures_total{loop="` + loop + `"}`)
	}
	w.Cut()
	for _, loop := range loops {
		check.Eventually(t, loop+" has failed three times", func() bool { return failures(loop) > 2 })
		// On a busy machine a loop may also have failed before the cut.
		failed, works := logged(`level=WARN msg="`+loop+` failed"`), logged(`level=INFO msg="`+loop+` works again"`)
		if failed != works+1 {
			t.Errorf("log of loop %s: got %d messages of a failure and %d of recovery, want one more failure", loop, failed, works)
		}
	}
	w.Restore()
	for _, loop := range loops {
		check.Eventually(t, loop+" works again", func() bool {
			works := logged(`level=INFO msg="` + loop + ` works again"`)
			return works > 0 && works == logged(`level=WARN msg="`+loop+` failed"`)
		})
	}
}
