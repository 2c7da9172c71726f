package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// asReports is the day's report as a run's only one.
func asReports(c Setup, rep *Report) *Reports {
	return &Reports{Setup: c, Sales: []*Report{rep}, Started: time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)}
}

func TestAgainst(t *testing.T) {
	c := Setup{Terms: map[string]string{"attack": "constant, 2000/s for 10s", "stores": "embedded"}}
	then := dayReport(func(*judge.Evidence) {})
	then.Latency.P99, then.DurablePerS, then.AcceptedPerS, then.Latency.P50 = 20*time.Millisecond, 100, 100, 10*time.Millisecond
	path := filepath.Join(t.TempDir(), "run.json")
	noError(t, asReports(c, then).SaveRun(path))
	earlier, err := ReadRun(path)
	noError(t, err)
	against := func(all *Reports) string {
		t.Helper()
		var b bytes.Buffer
		noError(t, all.WriteAgainst(&b, earlier))
		var lines []string
		for line := range strings.Lines(b.String()) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}

	now := dayReport(func(e *judge.Evidence) { e.Rows = e.Rows[1:] })
	now.Latency.P99, now.DurablePerS, now.AcceptedPerS, now.Latency.P50 = 10*time.Millisecond, 50, 104, 10*time.Millisecond
	got := against(asReports(c, now))
	for _, want := range []string{
		"Against " + path + ", run at 2026-11-27 09:00:00 UTC:",
		"\nverdict PASS FAIL\n", "\naccepted/s 100 104 1.04 same\n", "\ndurable/s 100 50 0.50 worse\n",
		"\np50 10ms 10ms 1.00 same\n", "\np99 20ms 10ms 0.50 better\n", "\nlost 0 1 - worse\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "WARNING") || strings.Contains(got, "oversold") {
		t.Errorf("warns without a reason, or tells of what neither had:\n%s", got)
	}

	c.Terms = map[string]string{"attack": "constant, 500/s for 10s", "stores": "real"}
	got = against(asReports(c, now))
	for _, want := range []string{
		"WARNING: not the same attack: constant, 2000/s for 10s then, constant, 500/s for 10s now",
		"WARNING: not the same stores: embedded then, real now",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}

	two := asReports(c, now)
	two.Sales = append(two.Sales, now)
	if got := against(two); !strings.Contains(got, "1 sale then, 2 now: nothing to compare") || strings.Contains(got, "verdict") {
		t.Errorf("compares one sale with two:\n%s", got)
	}
}

func TestReadRunSaysWhatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	for text, want := range map[string]string{"nonsense": "invalid character", "{}": "no report of a sale"} {
		noError(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := ReadRun(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadRun(path + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}
