package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestNumber(t *testing.T) {
	const metrics = "# TYPE a counter\na{status=\"201\"} 1.234567e+06\na{status=\"2010\"} 3\n"
	const info = "# Memory\r\nused_memory:1048576\r\nused_memory_rss:9\r\n"
	for _, c := range []struct {
		text, label string
		want        float64
	}{
		{metrics, `a{status="201"} `, 1234567},
		{metrics, `a{status="409"} `, 0}, // missing
		{info, "used_memory:", 1048576},
		{info, "used_memory_peak:", 0},
	} {
		if got := ParseMetric(c.text, c.label); got != c.want {
			t.Errorf("metric %s: got %v, want %v", c.label, got, c.want)
		}
	}
}

func TestPoll(t *testing.T) {
	asked, broken := 0, errors.New("broken")
	third := func() (bool, error) { asked++; return asked == 3, nil }
	if err := Poll(t.Context(), time.Millisecond, third); err != nil || asked != 3 {
		t.Errorf("Poll until the third call: got %d calls, error %v, want 3 calls", asked, err)
	}
	if err := Poll(t.Context(), time.Millisecond, func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("Poll with a failing condition: got error %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Poll(ctx, time.Hour, func() (bool, error) { return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Poll with a cancelled context: got error %v, want %v", err, context.Canceled)
	}
}

func TestFaultsNameEveryError(t *testing.T) {
	f := Config{}.Errors()
	f.RequireKnown("drill", []string{"a", "earthquake"}, []string{"a", "b"})
	got := errors.Join(f...).Error()
	for _, want := range []string{"program", `"earthquake"`, "want one of a, b"} {
		if !strings.Contains(got, want) {
			t.Errorf("error of unmended faults: got %q, want it to contain %s", got, want)
		}
	}
}
