package app

import (
	"fmt"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Whose word counts for a caller's address decides who can get around the
// limiter: every request here claims another one.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header string
		trusted      []string
		believed     bool
	}{
		{"a trusted proxy's", "X-Forwarded-For: 203.0.113.%d", []string{"127.0.0.1"}, true},
		{"one proxy's behind another", "X-Forwarded-For: 203.0.113.%d, 127.0.0.2", []string{"127.0.0.0/8"}, true},
		{"the caller's before a trusted proxy's", "X-Forwarded-For: 203.0.113.%d, 198.51.100.1", []string{"127.0.0.1"}, false},
		{"anybody's", "X-Forwarded-For: 203.0.113.%d", nil, false},
		{"a trusted proxy's under another name", "X-Real-Ip: 203.0.113.%d", []string{"127.0.0.1"}, false},
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
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			if want := map[bool]int{true: 0, false: 3}[c.believed]; limited != want {
				t.Errorf("6 requests from addresses that are %s: %d limited, want %d", c.name, limited, want)
			}
		})
	}
}
