package app

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A Redis that comes back without its last writes has forgotten who bought. The
// node notices by its first connection that it is another process, and looks a
// refused key up.
func TestRedisThatForgotTheBuyer(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	n := start(t, s, nil)
	if a := n.put("S", 1, 1, 900); a.status/100 != 2 {
		t.Fatal(a.body)
	}
	ann := n.token("ann", false)
	order := func() answer {
		return n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`, "Idempotency-Key: k")
	}
	if a := order(); a.status != 201 {
		t.Fatal(a.status, a.body)
	}
	rdb := openRedis(t, s.RedisURL)
	if err := rdb.Del(t.Context(), "sale:{S}:holds", "sale:{S}:buyers", "sale:{S}:keys", "sale:{S}:keys:older").Err(); err != nil {
		t.Fatal(err)
	}
	if a := order(); a.code() != "sold_out" {
		t.Fatalf("nothing was forgotten: %d %s", a.status, a.body)
	}
	s.Redis.Kill()
	if err := s.Redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	var a answer
	eventually(t, "an answer", func() bool { a = order(); return a.status != 503 })
	if a.status != 201 || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestLineage(t *testing.T) {
	l := &lineage{}
	for i, c := range []struct {
		run  string
		want bool
	}{{"", false}, {"a", false}, {"a", false}, {"b", true}, {"b", false}, {"a", false}, {"", false}, {"c", true}} {
		if got := l.isAnother(c.run); got != c.want {
			t.Errorf("%d: %q: %v", i, c.run, got)
		}
	}
}
