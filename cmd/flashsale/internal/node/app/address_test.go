package app

import (
	"fmt"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Only trusted proxies can set a client's address. Otherwise a client could send another
// address with each request, as in this test, and evade the limiter.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header string
		trusted      []string
		trust        bool
	}{
		{"set by a trusted proxy", "X-Forwarded-For: 203.0.113.%d", []string{"127.0.0.1"}, true},
		{"set by the first of two trusted proxies", "X-Forwarded-For: 203.0.113.%d, 127.0.0.2", []string{"127.0.0.0/8"}, true},
		{"set by the client of a trusted proxy", "X-Forwarded-For: 203.0.113.%d, 198.51.100.1", []string{"127.0.0.1"}, false},
		{"set by a client", "X-Forwarded-For: 203.0.113.%d", nil, false},
		{"in another header of a trusted proxy", "X-Real-Ip: 203.0.113.%d", []string{"127.0.0.1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := start(t, servertest.Open(t, servers.KindEmbedded), func(cfg *Config) {
				cfg.TrustedProxies = c.trusted
				cfg.LimitIP = parseLimit(t, "1/m:3")
			})
			limited := 0
			for i := range 6 {
				switch a := n.send("GET", "/v1/sales", "", "", fmt.Sprintf(c.header, i+1)); a.status {
				case 200:
				case 429:
					limited++
				default:
					t.Fatalf("request from one of six addresses: got %d %s, want 200 or 429", a.status, a.body)
				}
			}
			if want := map[bool]int{true: 0, false: 3}[c.trust]; limited != want {
				t.Errorf("6 addresses %s: got %d limited requests, want %d", c.name, limited, want)
			}
		})
	}
}
