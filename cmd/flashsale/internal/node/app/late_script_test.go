package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

// orders are those of a buyer, as text.
func (n *node) orders(buyer string) string {
	n.t.Helper()
	return n.send("GET", "/v1/orders", n.token(buyer, false), "").body
}

// A reserve script leaves one node and does not arrive. The buyer hears 503,
// asks another node under the same key, and is told no. What arrives later, when
// there are units again, must not take any: that was the answer.
func TestRefusedOrderStaysRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	via, w := servertest.RedisVia(t, s)
	a, b, rdb := start(t, via, nil), start(t, s, nil), openRedis(t, s.RedisURL)
	arrives := func(t *testing.T, c *wire.Catch) {
		t.Helper()
		before := asked(t, s, "evalsha")
		c.Pass()
		check.Eventually(t, "the script arrives", func() bool { return asked(t, s, "evalsha") > before })
	}
	holds := func(marker string) *wire.Catch {
		return w.HoldAll(func(sent []byte) bool { return bytes.Contains(sent, []byte(marker)) })
	}
	t.Run("order", func(t *testing.T) {
		a.put("S", 1, 1, 900).ok()
		bob := a.order("S", "bob").is(201) // and a knows the gate now
		c := holds("anns-key")
		a.orderBy("S", "ann", "anns-key").is(503)
		b.orderBy("S", "ann", "anns-key").is(409, "sold_out")
		b.cancel("bob", bob.where())
		b.audited("S", `"available":1,`)
		// Until then the cooldown refuses the script, and not its deadline.
		check.Eventually(t, "the unit may be sold", func() bool {
			end, err := rdb.HGet(t.Context(), "sale:{S}", "resume_at").Int64()
			return errors.Is(err, redis.Nil) || err == nil && rdb.Time(t.Context()).Val().UnixMilli() > end
		})
		arrives(t, c)
		check.Eventually(t, "eve has the unit", func() bool { return b.order("S", "eve").status == 201 })
		if got := b.orders("ann"); strings.Contains(got, `"id"`) {
			t.Errorf("503, 409 sold_out, and then an order: %s", got)
		}
	})
	t.Run("payment", func(t *testing.T) {
		a.put("P", 1, 1, 900, onPayment).ok()
		order := func(buyer string) string {
			var got answer
			check.Eventually(t, buyer+" has an order", func() bool { got = b.order("P", buyer); return got.status == 201 })
			return got.where()
		}
		pay := func(n *node, buyer, where string) answer { return n.pay(buyer, where, "ref-of-"+buyer) }
		anns, bobs := order("ann"), order("bob")
		check.Eventually(t, "bob has paid", func() bool { return pay(a, "bob", bobs).status == 200 })
		c := holds("ref-of-ann")
		if got := pay(a, "ann", anns); got.status == 200 {
			t.Fatal(got.status, got.body)
		}
		pay(b, "ann", anns).is(409, "sold_out")
		b.put("P", 2, 1, 900, onPayment).ok()
		b.audited("P", `"available":1,`)
		arrives(t, c)
		eves := order("eve")
		check.Eventually(t, "eve has paid", func() bool { return pay(b, "eve", eves).status == 200 })
		if got := b.orders("ann"); strings.Contains(got, `"paid"`) {
			t.Errorf("503, 409 sold_out, and then paid: %s", got)
		}
	})
}
