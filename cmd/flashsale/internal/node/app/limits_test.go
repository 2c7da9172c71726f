package app

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/admission"
)

// orderFrom places an order from an address behind a trusted proxy.
func (n *node) orderFrom(ip, token string) answer {
	return n.send("POST", "/v1/orders", token, `{"sku":"S","quantity":1}`, "X-Forwarded-For: "+ip)
}

func (n *node) readFrom(ip string) answer {
	return n.send("GET", "/v1/orders", n.token("ann", false), "", "X-Forwarded-For: "+ip)
}

// While Redis is down, the limiter applies each policy on all routes and counts its
// decisions in /metrics. It returns to normal when Redis is back.
func TestLimiterWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for _, policy := range []admission.Policy{admission.Open, admission.Closed, admission.Local} {
			t.Run(string(policy), func(t *testing.T) {
				n := start(t, s, func(c *Config) {
					c.LimitIP = parseLimit(t, "1/h:3")
					c.LimitWhenRedisDown = map[string]admission.Policy{"place": policy, "pay": policy, "read": policy}
				})
				n.put("S", 100, 10, 900)
				redis := redisOf(s)
				redis.Kill()
				ip := nextAddress()
				check.Eventually(t, "/readyz reports that Redis is down", func() bool { return n.send("GET", "/readyz", "", "").status != 200 })
				// Orders are read from the database, so only the limiter needs Redis.
				var statuses []int
				for range 5 {
					statuses = append(statuses, n.readFrom(ip).status)
				}
				want := map[admission.Policy]string{
					admission.Open: "[200 200 200 200 200]", admission.Closed: "[503 503 503 503 503]", admission.Local: "[200 200 200 429 429]",
				}[policy]
				if got := fmt.Sprint(statuses); got != want {
					t.Errorf("reading without Redis: got statuses %v, want %v", got, want)
				}
				cancel := n.send("POST", "/v1/orders/01900000-0000-7000-8000-000000000000/cancel", n.token("ann", false), "", "X-Forwarded-For: "+ip)
				order := n.orderFrom(ip, n.token("ann", false))
				switch policy {
				case admission.Open:
					if cancel.status == 429 || order.status == 429 {
						t.Errorf("requests without Redis: got %d for cancelling and %d %s for placing, want no 429", cancel.status, order.status, order.body)
					}
				case admission.Closed:
					cancel.want(503)
					if order.want(503, "unavailable").header.Get("Retry-After") == "" {
						t.Errorf("order without Redis: got headers %v, want 503 with Retry-After", order.header)
					}
				case admission.Local:
					cancel.want(429)
					wait := order.want(429, "rate_limited").header.Get("Retry-After")
					if wait == "" || wait == "0" || order.header.Get("RateLimit-Policy") == "" {
						t.Errorf("order without Redis: got headers %v, want Retry-After above 0 and RateLimit-Policy", order.header)
					}
				}
				counted(t, n, map[admission.Policy][]string{
					admission.Open: {`outcome="failed_open",route="read",shadow="false"} 5`, `outcome="failed_open",route="pay",shadow="false"} 1`,
						`outcome="failed_open",route="place",shadow="false"} 1`},
					admission.Closed: {`outcome="failed_closed",route="read",shadow="false"} 5`, `outcome="failed_closed",route="pay",shadow="false"} 1`,
						`outcome="failed_closed",route="place",shadow="false"} 1`},
					admission.Local: {`outcome="local_allowed",route="read",shadow="false"} 3`, `bucket="ip",outcome="local_denied",route="read",shadow="false"} 2`,
						`bucket="ip",outcome="local_denied",route="pay",shadow="false"} 1`},
				}[policy]...)
				check.Must(t, redis.Restart(t.Context()))
				check.Eventually(t, "the limiter uses Redis again", func() bool {
					a := n.readFrom(nextAddress())
					return a.status == 200 && a.header.Get("RateLimit") == `"ip";r=2`
				})
			})
		}
	})
}

// A shadow limit counts decisions, but rejects no request and sends no headers.
func TestShadowLimits(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, func(c *Config) {
			c.LimitIP = parseLimit(t, "1/h:1")
			c.LimitShadow = []string{"place", "read"}
		})
		n.put("S", 100, 10, 900)
		ip := nextAddress()
		for range 3 {
			if a := n.readFrom(ip); a.status != 200 || a.header.Get("RateLimit-Policy") != "" {
				t.Errorf("read with limits in shadow mode: got %d %v, want 200 without RateLimit-Policy", a.status, a.header)
			}
		}
		n.orderFrom(ip, n.token("ann", false)).want(201)
		n.send("GET", "/v1/orders", n.token("ann", false), "", "X-Forwarded-For: "+ip).want(200)
		n.send("POST", "/v1/orders/01900000-0000-7000-8000-000000000000/cancel", n.token("ann", false), "", "X-Forwarded-For: "+ip).want(429)
		// The outcome is "denied", or "remembered" for a repeated refusal.
		counted(t, n, `bucket="",outcome="allowed",route="read",shadow="true"} 1`, `bucket="ip",outcome="denied",route="read",shadow="true"}`,
			`route="place",shadow="true"} 1`, `route="pay",shadow="false"} 1`)
	})
}

var addresses atomic.Int64

// nextAddress returns an address of an unused network.
func nextAddress() string { return fmt.Sprintf("2001:db8:%x::1", addresses.Add(1)) }

// counted fails the test unless /metrics contains all lines.
func counted(t *testing.T, n *node, lines ...string) {
	t.Helper()
	text := n.send("GET", "/metrics", "", "").body
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("metrics: got no line %s", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "flashsale_limiter") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
