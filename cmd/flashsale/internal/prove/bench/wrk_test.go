package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Output of wrk 4.1.0, with the line that function done of wrk.lua adds.
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
totals 3020000 61540 0 40
`

func TestParseWrk(t *testing.T) {
	got, err := parseWrk(wrkOutput)
	want := wrkResult{took: 3020 * time.Millisecond, requests: 61540, status: 40}
	if err != nil || got != want {
		t.Errorf("output of wrk: got %+v, error %v, want %+v", got, err, want)
	}
	if got.good() != 61500 || int(got.perSecond(got.good())) != 20364 {
		t.Errorf("totals of wrk: got %d good, %v per second, want 61500 and 20364", got.good(), got.perSecond(got.good()))
	}
}

func TestParseWrkRejectsInvalidTotals(t *testing.T) {
	for _, out := range []string{
		"",
		"unable to connect to 127.0.0.1:1 Connection refused\n",
		strings.Replace(wrkOutput, "totals ", "sums ", 1),
		"totals 3020000 61540 0\n",
		"totals 0 61540 0 0\n",      // no time passed
		"totals 3020000 10 0 11\n",  // more refusals than answers
		"totals 3020000 many 0 0\n", // not a number
	} {
		if r, err := parseWrk(out); err == nil {
			t.Errorf("invalid output of wrk %q: got %+v, want an error", out, r)
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
		{"a row for each acceptance", result(1000, 0), 1000, true},
		{"rows for all requests in flight", result(1000, 0), 1064, true},
		{"refusals without rows", result(1000, 10), 990, true},
		{"an acceptance without a row", result(1000, 0), 999, false},
		{"a row for a refusal", result(1000, 100), 965, false},
		{"a row without a request", result(1000, 0), 1065, false},
		{"only refusals", result(1000, 1000), 0, false},
		{"mostly refusals", result(1000, 600), 400, false},
	} {
		if err := checkCounts(c.r, c.rows, 64); (err == nil) != c.ok || err != nil && !errors.Is(err, errCounts) {
			t.Errorf("counts of %s: got error %v, want them accepted: %v", c.what, err, c.ok)
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
		{"all refused", wrkResult{requests: 1000, status: 1000}, 1000, true},
		{"all refused, also requests in flight", wrkResult{requests: 1000, status: 1000}, 1064, true},
		{"a few other refusals", wrkResult{requests: 1000, status: 1000}, 990, true},
		{"many other refusals", wrkResult{requests: 1000, status: 1000}, 900, false},
		{"one sold", wrkResult{requests: 1000, status: 999}, 999, false},
		{"refusals of another load", wrkResult{requests: 1000, status: 1000}, 1065, false},
	} {
		if err := checkRefusals(c.r, c.conflicts, 64); (err == nil) != c.ok {
			t.Errorf("refusals of %s: got error %v, want them accepted: %v", c.what, err, c.ok)
		}
	}
}

// A missing program is named in its rows, with the command to install it.
func TestMissingTools(t *testing.T) {
	install["no-such-program-anywhere"] = "apt-get install it"
	for program, want := range map[string]string{
		"no-such-program-anywhere": "no-such-program-anywhere (apt-get install it)", "go": "", "": "",
	} {
		if got := missing(program); got != want {
			t.Errorf("missing tools for %s: got %q, want %q", program, got, want)
		}
	}
}
