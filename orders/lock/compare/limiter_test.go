package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
)

// Every measurement works. What it measures is not judged here.
func TestLimiterTable(t *testing.T) {
	traffic, out := LimiterTraffic{Processes: 2, Callers: 4, For: 20 * time.Millisecond, Latency: time.Millisecond}, new(strings.Builder)
	if err := Limiters(t.Context(), out, limiterRedis(t), traffic, 1); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2+len(limiterCases)*len(limiterKinds)+3 {
		t.Errorf("%d lines:\n%s", lines, out)
	}
}

// Every kind does what it is measured for: else a fast no would win.
func TestLimitersDoWhatIsMeasured(t *testing.T) {
	addr := limiterRedis(t)
	for _, k := range limiterKinds {
		for _, c := range limiterCases {
			f, err := runLimiter(t.Context(), addr, k, c, LimiterTraffic{Processes: 2, Callers: 4, For: 50 * time.Millisecond})
			if err != nil || f.Errors > 0 || f.Requests == 0 {
				t.Fatalf("%s, %s: %+v, %v", k.name, c.name, f, err)
			}
			switch c.limit {
			case far:
				if f.Allowed != f.Requests {
					t.Errorf("%s, %s: %d of %d allowed", k.name, c.name, f.Allowed, f.Requests)
				}
			case scarce:
				if f.Allowed < 1 || f.Allowed > spreadOver || f.Allowed == f.Requests && f.Requests > spreadOver {
					t.Errorf("%s, %s: %d of %d allowed", k.name, c.name, f.Allowed, f.Requests)
				}
			case busy:
				if f.Allowed < int64(busy.burst) || f.ofBound(busy) > 1.01 {
					t.Errorf("%s, %s: %d allowed in %v", k.name, c.name, f.Allowed, f.Took)
				}
			}
		}
	}
}

func limiterRedis(t *testing.T) (addr string) {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{})
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.Addr()
}
