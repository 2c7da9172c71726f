package loadtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest/check"
)

// Phases run one after the other. Each sends its number of requests, none before the
// start of the phase, and on a fast machine the last one in time.
func TestPhasesFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Config
		for i := range rapid.IntRange(1, 4).Draw(t, "phases") {
			p := Phase{
				Shape: rapid.SampledFrom([]string{Constant, Ramp, Burst}).Draw(t, "shape"),
				Rate:  rapid.IntRange(1, 2000).Draw(t, "rate"), Duration: time.Duration(rapid.IntRange(100, 3000).Draw(t, "ms")) * time.Millisecond,
			}
			if p.Shape == Ramp && rapid.Bool().Draw(t, "from") {
				p.From = rapid.IntRange(1, 2*p.Rate-1).Draw(t, "first") // rising or falling
			}
			c.Phases = append(c.Phases, p)
			if i == 0 && rapid.Bool().Draw(t, "then a pause") {
				c.Phases = append(c.Phases, Phase{Shape: Constant, Duration: time.Second})
			}
		}
		p := pace(context.Background(), c)
		p.sleep = func(context.Context, time.Duration) error { return nil } // the test advances now instead
		hits, now := 0, time.Duration(0)
		begin := time.Duration(0)
		for _, phase := range c.Phases {
			first := time.Duration(-1)
			for n := range phase.requests() {
				// Advance the clock by the wait for the phase, as vegeta's clock would.
				if n == 0 {
					now = max(now, begin)
				}
				d, stop := p.Pace(now, uint64(hits))
				if stop {
					t.Fatalf("Pace: got its stop after %d requests, in phase %v of %v, want a stop after all phases", hits, phase, c.Phases)
				}
				now += d
				if first < 0 {
					first = now
				}
				hits++
			}
			begin += phase.Duration
			if phase.requests() > 0 && first < begin-phase.Duration {
				t.Fatalf("phase %v: got the first request at %v, want it not before %v", phase, first, begin-phase.Duration)
			}
			if late := begin + phase.Duration/10 + 2*time.Second; now > late {
				t.Fatalf("phase %v of %v: got the last request at %v, want it before %v", phase, c.Phases, now, late)
			}
		}
		if _, stop := p.Pace(now, uint64(hits)); !stop || hits != c.requests() {
			t.Fatalf("Pace: got no stop after %d of %d requests, want one", hits, c.requests())
		}
	})
}

// Lateness is measured against these times.
func TestDueTimes(t *testing.T) {
	p := pace(t.Context(), Config{Phases: []Phase{
		{Shape: Ramp, From: 1900, Rate: 1000, Duration: 2 * time.Second}, // falls by 900/s each second
		{Shape: Constant, Duration: time.Second},
		{Shape: Constant, Rate: 100, Duration: time.Second},
	}})
	for n, want := range map[uint64]time.Duration{0: 0, 1450: time.Second, 2000: 3 * time.Second, 2099: 3990 * time.Millisecond} {
		if got := p.due(n); got != want {
			t.Errorf("request %d: got the due time %v, want %v", n, got, want)
		}
	}
	if last := p.due(1999); last < 1900*time.Millisecond || last >= 2*time.Second {
		t.Errorf("last request of the ramp: got the due time %v, want 1.9 s to 2 s", last)
	}
}

// A machine that is late sends at once, including the requests at the end of a falling
// ramp.
func TestLateRampCatchesUp(t *testing.T) {
	c := Config{Phases: []Phase{{Shape: Ramp, From: 1900, Rate: 1000, Duration: 2 * time.Second}}}
	p := pace(t.Context(), c)
	for _, late := range []time.Duration{2 * time.Second, 3 * time.Second, time.Hour} {
		for _, hits := range []uint64{1, 1000, 1800, 1998} {
			if pause, stop := p.Pace(late, hits); pause > 0 || stop {
				t.Errorf("%v after the start, with %d of %d sent: got wait %v, stop %v, want 0 and false", late, hits, c.requests(), pause, stop)
			}
		}
	}
}

// Cancelling the context ends a pause of an hour.
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
	if !check.Receive(t, "the end of Pace's pause", ended) {
		t.Error("Pace after the context ended: got stop false, want true")
	}
}

func TestScheduleInWords(t *testing.T) {
	c := Config{Phases: []Phase{
		{Shape: Ramp, From: 100, Rate: 550, Duration: 2 * time.Second},
		{Shape: Constant, Duration: time.Second}, {Shape: Burst, Rate: 20, Duration: 3 * time.Second},
	}}
	if got, want := c.schedule(), "ramp, 100 to 1,000/s for 2s, then nothing for 1s, then burst, 20/s for 3s"; got != want {
		t.Errorf("schedule: got %q, want %q", got, want)
	}
	if c.InFlight = 8; c.schedule() != "at most 8 calls at once" {
		t.Errorf("schedule with InFlight: got %q, want at most 8 calls at once", c.schedule())
	}
	c.Paced = true
	if got, want := c.schedule(), "burst, 20/s for 3s, at most 8 calls at once"; !strings.HasSuffix(got, want) {
		t.Errorf("schedule with InFlight and Paced: got %q, want the phases and at last %q", got, want)
	}
	whole := c.whole()
	if got, want := fmt.Sprint(whole.Rate, whole.Duration, whole.requests()), "193 6s 1160"; got != want {
		t.Errorf("rate, duration, requests: got %s, want %s", got, want)
	}
}

// The report shows the attack that was sent.
func TestReportConfig(t *testing.T) {
	c := Defaults()
	c.Stores, c.Scenario, c.Shape = "real", "drop", Burst
	got := c.reportConfig()
	if !got.Burst || got.Stores != "real" || got.Scenario != "drop" || got.Schedule != "burst, 2,000/s for 10s" {
		t.Errorf("reportConfig: got %+v, want burst, real stores and the scenario drop", got)
	}
}
