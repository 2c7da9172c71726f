package bench

import (
	"bytes"
	"strings"
	"testing"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/servertest/check"
)

func ptr[T any](v T) *T { return &v }

func measured() *Report {
	return &Report{
		Rounds: 3, Seconds: 3, Connections: 256,
		Machine: Machine{Cores: 2, OS: "linux/amd64", Go: "go1.26", Redis: "Redis 7.0.15", MySQL: "MariaDB 10.11.19", CPUTimes: true},
		Rows: []Row{
			{
				Item: "2a", Name: "durable / hello", Unit: "req/s", Ours: 21_500, Counterpart: 84_000, Ratio: 0.256,
				Target: atLeast(0.25), Met: ptr(true), Note: "as it should be",
				CPU: &CPU{App: 38.2, Redis: ptr(12.0), MySQL: ptr(9.25)}, CounterpartCPU: &CPU{App: 14},
			},
			{Item: "3a", Name: "refusals / hello", Unit: "req/s", Target: atLeast(0.85), Needs: "wrk (apt-get install wrk)"},
			{Item: "5a", Name: "keeper / insert", Unit: "rows/s", Target: atLeast(0.85), Error: "wrong counts\nlog"},
			{Item: "7a", Name: "connections", Unit: "connections", Ours: 70, Target: atMost(63), Met: ptr(false)},
			{Item: "6a", Name: "p99", Unit: "ms", Ours: 12, Counterpart: 4, Ratio: 3, Target: atMost(10)},
		},
	}
}

func TestWriteText(t *testing.T) {
	var out bytes.Buffer
	check.Must(t, measured().WriteText(&out))
	for _, want := range [][]string{
		{"2a", "durable / hello", "21,500", "84,000", "req/s", "0.26", "≥ 0.25", "yes", "38.2 + 12 + 9.25", "14"},
		{"3a", "refusals / hello", "needs wrk (apt-get install wrk)"},
		{"5a", "keeper / insert", "FAILED: wrong counts"},
		{"7a", "connections", "70", "connections", "≤ 63", "NO"},
		{"6a", "p99", "12", "4", "ms", "3", "≤ 10", "?"},
		{"2a", "as it should be"},
		{"2 cores, linux/amd64, go1.26, Redis 7.0.15, MariaDB 10.11.19"},
	} {
		if !hasLine(out.String(), want) {
			t.Errorf("table of the benchmarks: got no line with %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\nlog") {
		t.Errorf("table of the benchmarks: got a node's log, want none:\n%s", &out)
	}
}

// hasLine reports whether a line contains all parts in this order.
func hasLine(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		rest, ok := line, true
		for _, part := range parts {
			var found bool
			_, rest, found = strings.Cut(rest, part)
			ok = ok && found
		}
		if ok {
			return true
		}
	}
	return false
}

func TestValidateNamesEveryError(t *testing.T) {
	err := Config{Names: []string{"durable", "fastest"}, Connections: 256}.Validate()
	for _, want := range []string{"rounds", "seconds", "program", `"fastest"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("invalid Config: got error %v, want it to name %s", err, want)
		}
	}
	if err := (Config{Rounds: 1, Seconds: 1, Connections: 1, Config: lab.Config{Program: "x"}, Names: names()}).Validate(); err != nil {
		t.Errorf("valid Config: got error %v, want none", err)
	}
}

// Every benchmark and row has a name, and items are unique.
func TestBenchmarksAreComplete(t *testing.T) {
	items := map[string]bool{}
	for _, b := range benchmarks {
		if b.name == "" || b.about == "" || b.run == nil || len(b.rows) == 0 {
			t.Errorf("benchmark: got incomplete fields %+v, want name, about, run and rows", b)
		}
		for _, r := range b.rows {
			if r.Item == "" || items[r.Item] || r.Name == "" || r.Unit == "" {
				t.Errorf("benchmark %s: got an incomplete or duplicate row %+v", b.name, r)
			}
			items[r.Item] = true
		}
	}
}
