package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/ratelimit"
)

// orderFrom and readFrom are requests of one address behind a trusted proxy.
func (n *node) orderFrom(ip, token string) answer {
	return n.send("POST", "/v1/orders", token, `{"sku":"S","quantity":1}`, "X-Forwarded-For: "+ip)
}

func (n *node) readFrom(ip string) answer {
	return n.send("GET", "/v1/orders", n.token("ann", false), "", "X-Forwarded-For: "+ip)
}

// The whole way, with Redis away, under each policy: what a caller of each kind
// of route hears, that /metrics says so, and that it ends by itself.
func TestLimitsWhileRedisIsAway(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for _, policy := range []ratelimit.Policy{ratelimit.Open, ratelimit.Closed, ratelimit.Local} {
			t.Run(policy.String(), func(t *testing.T) {
				n := start(t, s, func(c *Config) {
					c.LimitIP = limit(t, "1/h:3")
					c.LimitAway = map[string]ratelimit.Policy{"place": policy, "pay": policy, "read": policy}
				})
				n.put("S", 100, 10, 900)
				away, back := outage(t, s)
				away()
				ip := nextAddress()
				eventually(t, "Redis is missed", func() bool { return n.send("GET", "/readyz", "", "").status != 200 })
				// A buyer's orders are read from the database: for that, Redis is
				// away for the limiter alone.
				var heard []int
				for range 5 {
					heard = append(heard, n.readFrom(ip).status)
				}
				want := map[ratelimit.Policy]string{
					ratelimit.Open: "[200 200 200 200 200]", ratelimit.Closed: "[503 503 503 503 503]", ratelimit.Local: "[200 200 200 429 429]",
				}[policy]
				if got := fmt.Sprint(heard); got != want {
					t.Errorf("reading: %v, want %v", got, want)
				}
				cancel := n.send("POST", "/v1/orders/01900000-0000-7000-8000-000000000000/cancel", n.token("ann", false), "", "X-Forwarded-For: "+ip)
				order := n.orderFrom(ip, n.token("ann", false))
				switch policy {
				case ratelimit.Open:
					if cancel.status == 429 || order.status == 429 {
						t.Errorf("cancelling: %d, placing: %d %s", cancel.status, order.status, order.body)
					}
				case ratelimit.Closed:
					if cancel.status != 503 || order.status != 503 || order.code() != "unavailable" || order.header.Get("Retry-After") == "" {
						t.Errorf("cancelling: %d, placing: %d %v %s", cancel.status, order.status, order.header, order.body)
					}
				case ratelimit.Local:
					wait := order.header.Get("Retry-After")
					if cancel.status != 429 || order.status != 429 || order.code() != "rate_limited" || wait == "" || wait == "0" || order.header.Get("RateLimit-Policy") == "" {
						t.Errorf("cancelling: %d, placing: %d %v %s", cancel.status, order.status, order.header, order.body)
					}
				}
				counted(t, n, map[ratelimit.Policy][]string{
					ratelimit.Open: {`outcome="failed_open",route="read",shadow="false"} 5`, `outcome="failed_open",route="pay",shadow="false"} 1`,
						`outcome="failed_open",route="place",shadow="false"} 1`},
					ratelimit.Closed: {`outcome="failed_closed",route="read",shadow="false"} 5`, `outcome="failed_closed",route="pay",shadow="false"} 1`,
						`outcome="failed_closed",route="place",shadow="false"} 1`},
					ratelimit.Local: {`outcome="local_allowed",route="read",shadow="false"} 3`, `bucket="ip",outcome="local_denied",route="read",shadow="false"} 2`,
						`bucket="ip",outcome="local_denied",route="pay",shadow="false"} 1`},
				}[policy]...)
				back()
				eventually(t, "Redis counts again", func() bool {
					a := n.readFrom(nextAddress())
					return a.status == 200 && a.header.Get("RateLimit") == `"ip";r=2`
				})
			})
		}
	})
}

// In the shadow a limit is counted, and nobody is refused or hears of it.
func TestLimitsInTheShadow(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, func(c *Config) {
			c.LimitIP = limit(t, "1/h:1")
			c.LimitShadow = []string{"place", "read"}
		})
		n.put("S", 100, 10, 900)
		ip := nextAddress()
		for range 3 {
			if a := n.readFrom(ip); a.status != 200 || a.header.Get("RateLimit-Policy") != "" {
				t.Errorf("reading: %d %v", a.status, a.header)
			}
		}
		if a := n.orderFrom(ip, n.token("ann", false)); a.status != 201 {
			t.Errorf("placing: %d %s", a.status, a.body)
		}
		if a := n.send("GET", "/v1/orders", n.token("ann", false), "", "X-Forwarded-For: "+ip); a.status != 200 {
			t.Errorf("listing: %d %s", a.status, a.body)
		}
		if a := n.send("POST", "/v1/orders/01900000-0000-7000-8000-000000000000/cancel", n.token("ann", false), "", "X-Forwarded-For: "+ip); a.status != 429 {
			t.Errorf("cancelling, which is not in the shadow: %d %s", a.status, a.body)
		}
		// Denied or, as long as it is remembered, remembered.
		counted(t, n, `bucket="",outcome="allowed",route="read",shadow="true"} 1`, `bucket="ip",outcome="denied",route="read",shadow="true"}`,
			`route="place",shadow="true"} 1`, `route="pay",shadow="false"} 1`)
	})
}

// outage takes Redis away, and brings it back.
func outage(t *testing.T, s *servers.Stores) (away, back func()) {
	var r interface {
		Kill()
		Restart(context.Context) error
	} = s.Redis
	if s.Mini != nil {
		r = s.Mini
	}
	return r.Kill, func() {
		if err := r.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

var addresses atomic.Int64

// nextAddress is one that nobody has used.
func nextAddress() string { return fmt.Sprintf("2001:db8:0:%x::1", addresses.Add(1)) }

// counted looks for lines of the limiter in /metrics.
func counted(t *testing.T, n *node, lines ...string) {
	t.Helper()
	res, err := http.Get(n.URL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(text), line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "flashsale_limiter") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
