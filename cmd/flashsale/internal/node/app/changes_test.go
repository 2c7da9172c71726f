package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

func withChanges(c *Config) { c.Changes = true }

// A changesPage is a page of the feed.
type changesPage struct {
	Changes []struct {
		No    int64
		Kind  string
		Order struct {
			ID, Status string
			Refunds    []struct {
				Ref string `json:"payment_ref"`
			}
		}
		Sale struct {
			SKU   string
			Total int64
		}
	}
	Next string
}

// changes reads a page, as a consumer with the scope changes.
func (n *node) changes(after string, header ...string) (p changesPage) {
	n.t.Helper()
	token, err := n.verifier.SignScope("consumer", "changes", time.Hour)
	check.Must(n.t, err)
	n.send("GET", "/v1/admin/changes?limit=2&after="+after, token, "", header...).want(200).into(n.t, &p)
	return p
}

// until reads the feed from a cursor until a change is found, and returns the cursor after it.
func (n *node) until(after, what string, found func(changesPage) bool) (next string) {
	n.t.Helper()
	next = after
	check.Eventually(n.t, "the feed reports "+what, func() bool {
		p := n.changes(next, "Prefer: wait=20")
		next = p.Next
		return found(p)
	})
	return next
}

func reports(id, status string, refunds int) func(changesPage) bool {
	return func(p changesPage) bool {
		for _, c := range p.Changes {
			if c.Kind == "order" && c.Order.ID == id && c.Order.Status == status && len(c.Order.Refunds) == refunds {
				return true
			}
		}
		return false
	}
}

// The feed reports what is sold, on every node, with a gate and in direct mode.
func TestChangesOfASale(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		s, w := servertest.RedisVia(t, s)
		with := func(c *Config) { withChanges(c); c.DirectAfter = 300 * time.Millisecond }
		one, two := start(t, s, with), start(t, s, with)
		one.put("S", 10, 5, 900)
		at := two.until("", "the sale", func(p changesPage) bool {
			return len(p.Changes) == 1 && p.Changes[0].Kind == "sale" && p.Changes[0].Sale.SKU == "S" && p.Changes[0].Sale.Total == 10
		})
		first := one.sold("S", "ann")
		at = two.until(at, "the order", reports(first.id(), "pending_payment", 0))
		one.pay("ann", first.where(), "r").want(200)
		at = two.until(at, "the payment", reports(first.id(), "paid", 0))
		second := one.orderBy("S", "ann", "k2").want(201)
		one.cancel("ann", second.where()).want(200)
		at = one.until(at, "the cancellation", reports(second.id(), "cancelled", 0))
		one.pay("ann", second.where(), "late").want(409)
		at = one.until(at, "the refund claim", reports(second.id(), "cancelled", 1))
		w.Cut()
		var third answer
		check.Eventually(t, "an order is accepted in direct mode", func() bool { third = one.order("S", "bob"); return third.status == 201 })
		two.until(at, "an order of direct mode", reports(third.id(), "pending_payment", 0))
	})
}

func TestChangesRequests(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, withChanges)
	op := n.token("op", true)
	n.put("S", 1, 1, 900)
	get := func(query, token string, header ...string) answer {
		return n.send("GET", "/v1/admin/changes"+query, token, "", header...)
	}
	get("", "").want(401)
	get("", n.token("ann", false)).want(403)
	next := n.until("", "the sale", func(p changesPage) bool { return len(p.Changes) == 1 })
	for _, query := range []string{"?after=x", "?limit=0", "?limit=1001", "?limit=x", "?after=" + next + "A", "?after=" + strings.Repeat("9", 6000)} {
		get(query, op).want(400, "invalid_request")
	}
	get("?after="+next, op, "Prefer: wait=soon").want(400).names("Prefer")
	get("?after="+next, op, "Prefer: wait=-1").want(400).names("Prefer")
	if applied := get("?after="+next, op, "Prefer: respond-async, wait=0").want(200).contains(`"changes":[]`).header.Get("Preference-Applied"); applied != "wait=0" {
		t.Errorf("Preference-Applied: got %q, want wait=0", applied)
	}
	if a := n.send("HEAD", "/v1/admin/changes?after="+next, op, ""); a.status != 200 || a.body != "" {
		t.Errorf("HEAD: got %d %q, want 200 without a body", a.status, a.body)
	}
	off := start(t, s, nil)
	off.send("GET", "/v1/admin/changes", op, "").want(404, "not_found").contains("--changes")
}

// A node that stops answers the readers that wait, and does not wait for them.
func TestChangesWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), withChanges)
	end := n.until("", "nothing", func(p changesPage) bool { return len(p.Changes) == 0 })
	op := n.token("op", true)
	got := make(chan answer, 1)
	go func() { got <- n.send("GET", "/v1/admin/changes?after="+end, op, "", "Prefer: wait=30") }()
	check.Eventually(t, "the reader waits", func() bool { return n.feed.Waiting() == 1 })
	check.Must(t, n.stop())
	if a := check.Receive(t, "the reader is answered", got); a.status != http.StatusOK {
		t.Errorf("answer of a node that stops: got %d %s, want 200", a.status, a.body)
	}
}
