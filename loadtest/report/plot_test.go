package report

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// Every answer of the attack is in the plot, however late it came, and no
// other.
func TestLatencyPlotHasEveryOrder(t *testing.T) {
	begin := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	order := func(at, latency time.Duration, attack bool, status int) judge.Request {
		return judge.Request{Attack: attack, Sent: begin.Add(at), Latency: latency, Answer: judge.Answer{Status: status}}
	}
	rep := &Report{Attempts: 3, Evidence: judge.Evidence{Requests: []judge.Request{
		order(2*time.Second, 222*time.Millisecond, true, 409),
		order(0, 3111*time.Millisecond, true, 409), // sent first, answered last
		order(time.Second, 333*time.Millisecond, false, 201),
		order(3*time.Second, 444*time.Millisecond, true, 409),
	}}}
	page, err := rep.latencyPlot()
	noError(t, err)
	for latency, want := range map[string]bool{"3111": true, "222": true, "333": false, "444": true} {
		// A value of the data, between commas or brackets.
		found := strings.Contains(string(page), ","+latency+"]") || strings.Contains(string(page), ","+latency+",") || strings.Contains(string(page), "["+latency+",")
		if found != want {
			t.Errorf("%s ms in the plot: %v, want %v", latency, found, want)
		}
	}
}
