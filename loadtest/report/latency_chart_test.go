package report

import (
	"slices"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// The attack has two orders in the first second, none in the second and one in the third. The chart
// has a gap, and omits the request after the attack.
func TestLatencyChartHasGaps(t *testing.T) {
	rep, _ := stockChartOf()
	rep.Latency.Min, rep.Latency.Max = time.Millisecond, 100*time.Millisecond
	for at, latency := range map[time.Duration]time.Duration{0: time.Millisecond, 900: 10 * time.Millisecond, 2500: 100 * time.Millisecond} {
		rep.Evidence.Requests = append(rep.Evidence.Requests, judge.Request{Attack: true, Sent: rep.first.Add(at * time.Millisecond), Latency: latency})
	}
	rep.Evidence.Requests = append(rep.Evidence.Requests, judge.Request{Sent: rep.first.Add(5 * time.Second), Latency: time.Hour})
	c := rep.LatencyChart()
	// A factor of ten is half of the height, and a second is a tenth of the width.
	want := []percentileLine{
		{"p50", "M0.0 220.0H96.0M192.0 0.0H288.0"}, {"p95", "M0.0 110.0H96.0M192.0 0.0H288.0"}, {"p99", "M0.0 110.0H96.0M192.0 0.0H288.0"},
	}
	if !slices.Equal(c.Lines, want) {
		t.Errorf("lines of the latency chart: got %v, want %v", c.Lines, want)
	}
	if want := []tick{{220, "1ms"}, {110, "10ms"}, {0, "100ms"}}; !slices.Equal(c.YTicks, want) {
		t.Errorf("ticks: got %v, want %v", c.YTicks, want)
	}
	if want := "second 1: p50 1.0ms, p95 10ms, p99 10ms of 2 orders sent"; len(c.Seconds) != 2 || c.Seconds[0].Title != want {
		t.Errorf("seconds: got %v, want two, the first with title %q", c.Seconds, want)
	}
}
