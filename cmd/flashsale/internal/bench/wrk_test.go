package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// As wrk 4.1.0 prints it, with the line of our script's done function.
const wrkOutput = `Running 3s test @ http://127.0.0.1:38211
  2 threads and 256 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.84ms   11.18ms  82.06ms   86.45%
    Req/Sec    10.30k   590.78    11.10k    50.00%
  61540 requests in 3.02s, 41.61MB read
  Socket errors: connect 0, read 1, write 2, timeout 3
  Non-2xx or 3xx responses: 40
Requests/sec:  20377.48
Transfer/sec:     13.78MB
totals 3020000 61540 0 1 2 40 3 11900 45210
`

func TestParseWrk(t *testing.T) {
	got, err := parseWrk(wrkOutput)
	want := wrkResult{
		took: 3020 * time.Millisecond, requests: 61540, read: 1, write: 2, status: 40, timeout: 3,
		p50: 11900 * time.Microsecond, p99: 45210 * time.Microsecond,
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got.good() != 61500 || int(got.perSecond(got.good())) != 20364 {
		t.Errorf("%d good, %v a second", got.good(), got.perSecond(got.good()))
	}
}

func TestParseWrkRefusesNonsense(t *testing.T) {
	for _, out := range []string{
		"",
		"unable to connect to 127.0.0.1:1 Connection refused\n",
		strings.Replace(wrkOutput, "totals ", "sums ", 1),
		"totals 3020000 61540 0 0\n",
		"totals 0 61540 0 0 0 0 0 1 2\n",      // no time passed
		"totals 3020000 10 0 0 0 11 0 1 2\n",  // more refusals than answers
		"totals 3020000 many 0 0 0 0 0 1 2\n", // not a number
	} {
		if r, err := parseWrk(out); err == nil {
			t.Errorf("%q: %+v", out, r)
		}
	}
}

func TestCheckCounts(t *testing.T) {
	result := func(requests, refused int64) wrkResult { return wrkResult{requests: requests, status: refused} }
	for _, c := range []struct {
		what string
		r    wrkResult
		rows int64
		ok   bool
	}{
		{"each yes a row", result(1000, 0), 1000, true},
		{"all that was in flight became rows", result(1000, 0), 1064, true},
		{"some refused, and no rows of them", result(1000, 10), 990, true},
		{"a lost yes", result(1000, 0), 999, false},
		{"a row of a refusal", result(1000, 100), 965, false},
		{"a row that nobody asked for", result(1000, 0), 1065, false},
		{"nothing but refusals", result(1000, 1000), 0, false},
		{"mostly refusals", result(1000, 600), 400, false},
	} {
		if err := checkCounts(c.r, c.rows, 64); (err == nil) != c.ok || err != nil && !errors.Is(err, errCounts) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestCheckRefusals(t *testing.T) {
	for _, c := range []struct {
		what      string
		r         wrkResult
		conflicts int64
		ok        bool
	}{
		{"all", wrkResult{requests: 1000, status: 1000}, 1000, true},
		{"those in flight, too", wrkResult{requests: 1000, status: 1000}, 1064, true},
		{"a few not because it is sold out", wrkResult{requests: 1000, status: 1000}, 990, true},
		{"many for another reason", wrkResult{requests: 1000, status: 1000}, 900, false},
		{"one sold", wrkResult{requests: 1000, status: 999}, 999, false},
		{"somebody else's load", wrkResult{requests: 1000, status: 1000}, 1065, false},
	} {
		if err := checkRefusals(c.r, c.conflicts, 64); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestParseRedisBenchmark(t *testing.T) {
	const head = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	const line = `"evalsha 8a5f 5 sale:{bench} 0 ""quoted"" __rand_int__","79365.08","9.1","1.0","9.0","11.2","14.9","20.1"` + "\n"
	if got, err := parseRedisBenchmark([]byte(head + line)); err != nil || got != 79365.08 {
		t.Errorf("%v, %v", got, err)
	}
	for _, out := range []string{"", head, "ERR unknown command\n", strings.Replace(line, "79365.08", "-", 1)} {
		if got, err := parseRedisBenchmark([]byte(out)); err == nil {
			t.Errorf("%q: %v", out, got)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	if p := percentile(hundred, 99); p != 99 {
		t.Errorf("p99 of 1 to 100: %d", p)
	}
	if p := percentile([]time.Duration{5}, 99); p != 5 {
		t.Errorf("p99 of one: %d", p)
	}
}

func TestCounter(t *testing.T) {
	const text = "# TYPE a counter\na{status=\"201\"} 1.234567e+06\na{status=\"2010\"} 3\n"
	if got := counter(text, `a{status="201"}`); got != 1234567 {
		t.Errorf("%d", got)
	}
	if got := counter(text, `a{status="409"}`); got != 0 {
		t.Errorf("never counted: %d", got)
	}
}

func TestInfoNumber(t *testing.T) {
	const info = "# Memory\r\nused_memory:1048576\r\nused_memory_rss:9\r\n"
	if got := infoNumber(info, "used_memory"); got != 1048576 {
		t.Errorf("%d", got)
	}
}

// wrk that is missing is named in its rows, with what to install.
func TestMissingTools(t *testing.T) {
	l := &lab{}
	got := l.missing([]tool{{"no-such-program-anywhere", "apt-get install it"}, {"go", "see go.dev"}})
	if got != "no-such-program-anywhere (apt-get install it)" {
		t.Errorf("%q", got)
	}
	if got := l.missing(nil); got != "" {
		t.Errorf("nothing needed: %q", got)
	}
}
