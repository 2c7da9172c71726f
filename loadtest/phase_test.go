package loadtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest/check"
)

// Phases come one after the other: each sends its own number of requests, none
// before its time, and a quick machine is done with it in time.
func TestPhasesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Config
		for i := range rapid.IntRange(1, 4).Draw(t, "phases") {
			p := Phase{
				Shape: rapid.SampledFrom([]string{Constant, Ramp, Burst}).Draw(t, "shape"),
				Rate:  rapid.IntRange(1, 2000).Draw(t, "rate"), Duration: time.Duration(rapid.IntRange(100, 3000).Draw(t, "ms")) * time.Millisecond,
			}
			if p.Shape == Ramp && rapid.Bool().Draw(t, "from") {
				p.From = rapid.IntRange(1, 2*p.Rate-1).Draw(t, "first") // up or down
			}
			c.Phases = append(c.Phases, p)
			if i == 0 && rapid.Bool().Draw(t, "then a pause") {
				c.Phases = append(c.Phases, Phase{Shape: Constant, Duration: time.Second})
			}
		}
		p := pace(context.Background(), c)
		p.sleep = func(context.Context, time.Duration) error { return nil } // the clock below moves instead
		hits, now := 0, time.Duration(0)
		begin := time.Duration(0)
		for _, phase := range c.Phases {
			first := time.Duration(-1)
			for n := range phase.requests() {
				// What vegeta's own clock would show after the wait for the phase.
				if n == 0 {
					now = max(now, begin)
				}
				d, stop := p.Pace(now, uint64(hits))
				if stop {
					t.Fatalf("ended after %d requests, in %v of %v", hits, phase, c.Phases)
				}
				now += d
				if first < 0 {
					first = now
				}
				hits++
			}
			begin += phase.Duration
			if phase.requests() > 0 && first < begin-phase.Duration {
				t.Fatalf("%v began at %v", phase, first)
			}
			if late := begin + phase.Duration/10 + 2*time.Second; now > late {
				t.Fatalf("%v of %v ended at %v", phase, c.Phases, now)
			}
		}
		if _, stop := p.Pace(now, uint64(hits)); !stop || hits != c.requests() {
			t.Fatalf("not ended after %d of %d requests", hits, c.requests())
		}
	})
}

// What is late is measured by when it was due.
func TestDue(t *testing.T) {
	p := pace(t.Context(), Config{Phases: []Phase{
		{Shape: Ramp, From: 1900, Rate: 1000, Duration: 2 * time.Second}, // falls by 900/s a second
		{Shape: Constant, Duration: time.Second},
		{Shape: Constant, Rate: 100, Duration: time.Second},
	}})
	for n, want := range map[uint64]time.Duration{0: 0, 1450: time.Second, 2000: 3 * time.Second, 2099: 3990 * time.Millisecond} {
		if got := p.due(n); got != want {
			t.Errorf("request %d is due at %v, want %v", n, got, want)
		}
	}
	if last := p.due(1999); last < 1900*time.Millisecond || last >= 2*time.Second {
		t.Errorf("the last of the ramp is due at %v", last)
	}
}

// A machine that is far behind sends at once, also what was to come at the end
// of a falling ramp.
func TestLateRampCatchesUp(t *testing.T) {
	c := Config{Phases: []Phase{{Shape: Ramp, From: 1900, Rate: 1000, Duration: 2 * time.Second}}}
	p := pace(t.Context(), c)
	for _, late := range []time.Duration{2 * time.Second, 3 * time.Second, time.Hour} {
		for _, hits := range []uint64{1, 1000, 1800, 1998} {
			if pause, stop := p.Pace(late, hits); pause > 0 || stop {
				t.Errorf("%v after its begin and %d of %d: waits for %v, ended %v", late, hits, c.requests(), pause, stop)
			}
		}
	}
}

// A pause of an hour ends with the attack.
func TestPauseIsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := Config{Phases: []Phase{
		{Shape: Constant, Rate: 10, Duration: 100 * time.Millisecond}, {Shape: Constant, Duration: time.Hour},
		{Shape: Constant, Rate: 10, Duration: time.Second},
	}}
	ended := make(chan bool)
	go func() {
		_, stopped := pace(ctx, c).Pace(time.Second, 1)
		ended <- stopped
	}()
	stop()
	if !check.Receive(t, "the end of the pause", ended) {
		t.Error("the attack continues after it was interrupted")
	}
}

func TestScheduleInWords(t *testing.T) {
	c := Config{Phases: []Phase{
		{Shape: Ramp, From: 100, Rate: 550, Duration: 2 * time.Second},
		{Shape: Constant, Duration: time.Second}, {Shape: Burst, Rate: 20, Duration: 3 * time.Second},
	}}
	if got, want := c.schedule(), "ramp, 100 to 1,000/s for 2s, then nothing for 1s, then burst, 20/s for 3s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c.InFlight = 8; c.schedule() != "at most 8 calls at once" {
		t.Error(c.schedule())
	}
	whole := c.whole()
	if got, want := fmt.Sprint(whole.Rate, whole.Duration, whole.requests()), "193 6s 1160"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A report shows the attack that was made.
func TestReportConfig(t *testing.T) {
	c := Defaults()
	c.Stores, c.Scenario, c.Shape = "real", "drop", Burst
	got := c.reportConfig()
	if !got.Burst || got.Stores != "real" || got.Scenario != "drop" || got.Schedule != "burst, 2,000/s for 10s" {
		t.Errorf("%+v", got)
	}
}
