package loadtest

import (
	"fmt"
	"strings"
	"time"

	"flashsale/loadtest/judge"
)

// Phase is one part of an attack.
type Phase struct {
	Shape    string        // Constant, Ramp or Burst
	Rate     int           // mean rate in requests per second; 0 for a pause
	From     int           // first rate of a ramp, which ends at 2 × Rate − From; 0 means a tenth of Rate
	Duration time.Duration // at least 100 ms
}

// requests returns the number of requests of a phase, including replays and second
// orders.
func (p Phase) requests() int {
	n := int(float64(p.Rate) * p.Duration.Seconds())
	if p.Rate > 0 {
		n = max(1, n)
	}
	return n
}

// ends returns the first and the last rate of a ramp.
func (p Phase) ends() (from, to int) {
	if from = p.From; from == 0 {
		from = max(1, p.Rate/10)
	}
	return from, 2*p.Rate - from
}

func (p Phase) String() string {
	switch {
	case p.Rate == 0:
		return fmt.Sprintf("nothing for %v", p.Duration)
	case p.Shape == Ramp && p.From > 0:
		from, to := p.ends()
		return judge.Sprintf("%s, %d to %d/s for %v", p.Shape, from, to, p.Duration)
	}
	return judge.Sprintf("%s, %d/s for %v", p.Shape, p.Rate, p.Duration)
}

// phases returns the phases of the attack, at least one.
func (c Config) phases() []Phase {
	if len(c.Phases) > 0 {
		return c.Phases
	}
	return []Phase{{Shape: c.Shape, Rate: c.Rate, Duration: c.Duration}}
}

// requests returns the number of requests of the attack.
func (c Config) requests() (n int) {
	for _, p := range c.phases() {
		n += p.requests()
	}
	return n
}

// schedule describes the attack in words.
func (c Config) schedule() string {
	atOnce := judge.Sprintf("at most %s at once", judge.Plural(c.InFlight, "call"))
	if c.InFlight > 0 && !c.Paced {
		return atOnce
	}
	var parts []string
	for _, p := range c.phases() {
		parts = append(parts, p.String())
	}
	phases := strings.Join(parts, ", then ")
	if c.InFlight > 0 {
		return phases + ", " + atOnce
	}
	return phases
}

// whole sets Rate and Duration to the totals of all phases.
func (c Config) whole() Config {
	if len(c.Phases) == 0 {
		return c
	}
	c.Duration = 0
	for _, p := range c.Phases {
		c.Duration += p.Duration
	}
	c.Rate = int(float64(c.requests()) / c.Duration.Seconds())
	// The report shows a burst if the attack ends with one.
	c.Shape = c.Phases[len(c.Phases)-1].Shape
	return c
}

func (c Config) validatePhases(check func(ok bool, format string, args ...any)) {
	least := 1
	if len(c.Phases) > 0 {
		least = 0 // a pause is allowed between phases
	}
	for i, p := range c.phases() {
		in := ""
		if len(c.Phases) > 0 {
			in = fmt.Sprintf("Phases[%d].", i)
		}
		check(p.Rate >= least, "%sRate: %d, want at least %d per second", in, p.Rate, least)
		check(p.Duration >= 100*time.Millisecond, "%sDuration: %v, want at least 100ms", in, p.Duration)
		check(p.Shape == Constant || p.Shape == Ramp || p.Shape == Burst,
			"%sShape: %q, want %s, %s or %s", in, p.Shape, Constant, Ramp, Burst)
		check(p.From == 0 || p.Shape == Ramp && p.From > 0 && p.From < 2*p.Rate,
			"%sFrom: %d, want a ramp's rate at its start, below twice its mean of %d", in, p.From, p.Rate)
	}
	check(len(c.Phases) == 0 || c.requests() > 0, "Phases: all rates are 0, want at least one request")
}
