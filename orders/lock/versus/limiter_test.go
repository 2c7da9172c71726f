package main

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
)

var (
	limiterCallers = flag.Int("limiter.callers", 128, "callers of each of two processes")
	limiterRounds  = flag.Int("limiter.rounds", 0, "measure the limiters in so many rounds, and print the table")
	limiterFor     = flag.Duration("limiter.for", time.Second, "how long each limiter is measured in a round")
)

// TestLimiterTable prints the table:
//
//	go test -run LimiterTable -limiter.rounds 3 -timeout 20m -v
//
// Without the flag it only shows that every measurement works.
func TestLimiterTable(t *testing.T) {
	traffic, rounds, out := LimiterTraffic{Processes: 2, Callers: *limiterCallers, For: *limiterFor}, *limiterRounds, new(strings.Builder)
	if rounds == 0 {
		traffic, rounds = LimiterTraffic{Processes: 2, Callers: 4, For: 20 * time.Millisecond, Latency: time.Millisecond}, 1
	}
	if err := Limiters(t.Context(), out, limiterRedis(t), traffic, rounds); err != nil {
		t.Fatal(err)
	}
	if *limiterRounds > 0 {
		_, _ = os.Stdout.WriteString(out.String())
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
