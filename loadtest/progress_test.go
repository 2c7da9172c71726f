package loadtest

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProgressInPlainLines(t *testing.T) {
	var b strings.Builder
	p := progress{w: &b}
	r := &run{}
	r.stock.add(stockPoint{time.Now(), 7})
	r.stock.add(stockPoint{time.Now(), 6})
	p.attack(3, []*run{r})
	p.answered(Request{Sent: time.Now(), Latency: 5 * time.Millisecond, Answer: Answer{Status: 201}})
	p.printed = p.printed.Add(-2 * every)
	p.answered(Request{Sent: time.Now().Add(-time.Hour), Answer: Answer{Status: 409, Code: "sold_out"}})
	p.answered(Request{})
	p.end()
	p.start("probes", 2)
	p.printed = p.printed.Add(-2 * every)
	p.add()
	p.end()
	p.start("settling", 0)
	p.end()
	p.say("%s:", "next")
	for _, want := range []string{
		"attack: 3 to go\n",
		"attack: 2 of 3, 6 left, 1/s, p99 5.0ms, sold_out 1, yes 1\n", // the other answer is an hour old
		"attack: 3 in 0.0s, 6 left, no answer 1, sold_out 1, yes 1\n",
		"probes: 1 of 2\n", "probes: 1 in 0.0s\n", "settling …\n", "next:\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
	var silent progress
	silent.attack(1, nil)
	silent.answered(Request{})
	silent.end()
	silent.say("nothing")
}

// A stock that is not known of every sale is not told.
func TestProgressKnowsNoStock(t *testing.T) {
	known, unknown := &run{}, &run{}
	known.stock.add(stockPoint{time.Now(), 7})
	if got := (&live{runs: []*run{known, unknown}}).left(); got != nil {
		t.Errorf("%q", got)
	}
	unknown.stock.add(stockPoint{time.Now(), -3})
	if got := (&live{runs: []*run{known, unknown}}).left(); !slices.Equal(got, []string{"4 left"}) {
		t.Errorf("%q", got)
	}
}

// Figures that do not fit are left out whole, the least telling first.
func TestProgressFitsItsLine(t *testing.T) {
	figures := []string{"10 left", "5/s", "p99 3ms"}
	for room, want := range map[int]string{-5: "", 6: "", 7: "10 left", 11: "10 left", 12: "10 left  5/s", 21: "10 left  5/s  p99 3ms", 99: "10 left  5/s  p99 3ms"} {
		if got := fit(figures, room); got != want {
			t.Errorf("in %d: %q, want %q", room, got, want)
		}
	}
}
