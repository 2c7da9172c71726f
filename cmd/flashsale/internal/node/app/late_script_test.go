package app

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

// orders returns a buyer's list of orders as text.
func (n *node) orders(buyer string) string {
	n.t.Helper()
	return n.send("GET", "/v1/orders", n.token(buyer, false), "").body
}

// A reserve script is delayed on its way to Redis, and its node answers 503. The buyer repeats
// the order at another node and receives a final refusal. When the script arrives later, it
// must not take a unit, even if units are available again.
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
		bob := a.order("S", "bob").want(201) // a has now loaded the gate
		c := holds("anns-key")
		a.orderBy("S", "ann", "anns-key").want(503)
		b.orderBy("S", "ann", "anns-key").want(409, "sold_out")
		b.cancel("bob", bob.where())
		b.audited("S", `"available":1,`)
		// During the cooldown, the script would be refused for another reason than its deadline.
		check.Eventually(t, "the cooldown is over", func() bool {
			end, err := rdb.HGet(t.Context(), "sale:{S}", "resume_at").Int64()
			return errors.Is(err, redis.Nil) || err == nil && rdb.Time(t.Context()).Val().UnixMilli() > end
		})
		arrives(t, c)
		check.Eventually(t, "eve has the unit", func() bool { return b.order("S", "eve").status == 201 })
		if got := b.orders("ann"); strings.Contains(got, `"id"`) {
			t.Errorf("order after the final refusal sold_out: got %s, want none", got)
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
			t.Fatalf("payment of ann after bob's: got %d %s, want a refusal", got.status, got.body)
		}
		pay(b, "ann", anns).want(409, "sold_out")
		b.put("P", 2, 1, 900, onPayment).ok()
		b.audited("P", `"available":1,`)
		arrives(t, c)
		eves := order("eve")
		// If the script is in time, it takes the unit until the keeper refuses the payment of ann. A
		// payment of eve that is refused meanwhile stays refused, so each attempt is a new payment.
		attempts := 0
		check.Eventually(t, "eve has paid", func() bool {
			attempts++
			return b.pay("eve", eves, fmt.Sprint("ref-of-eve-", attempts)).status == 200
		})
		if got := b.orders("ann"); strings.Contains(got, `"paid"`) {
			t.Errorf("paid order after the final refusal sold_out: got %s, want none", got)
		}
	})
}
