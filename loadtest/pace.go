package loadtest

import (
	"context"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// pace is the attack's phases as a vegeta pacer that ends after c.requests(),
// or with ctx.
func pace(ctx context.Context, c Config) vegeta.Pacer {
	s := stages{ctx: ctx, sleep: wait}
	var begin time.Duration
	var n uint64
	for _, p := range c.phases() {
		first := n
		n += uint64(p.requests())
		s.list = append(s.list, stage{Pacer: p.pacer(), begin: begin, length: p.Duration, first: first, end: n})
		begin += p.Duration
	}
	return s
}

// pacer is the phase's shape. It does not end.
func (p Phase) pacer() vegeta.Pacer {
	switch p.Shape {
	case Ramp:
		from, to := p.ends()
		return vegeta.LinearPacer{
			StartAt: vegeta.Rate{Freq: from, Per: time.Second},
			Slope:   float64(to-from) / p.Duration.Seconds(),
		}
	case Burst:
		return burst{size: uint64(p.Rate), every: time.Second}
	}
	return vegeta.Rate{Freq: p.Rate, Per: time.Second}
}

// stages are phases, one after the other. Each ends after its number of
// requests: a duration would cut off what a busy machine could not send in
// time, so a late phase makes the next one begin late, and catch up.
type stages struct {
	ctx   context.Context // a pacer is given none
	sleep func(context.Context, time.Duration) error
	list  []stage
}

type stage struct {
	vegeta.Pacer
	begin, length time.Duration
	first, end    uint64 // hits before it, and after it
}

func (s stages) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	for _, at := range s.list {
		if hits >= at.end {
			continue
		}
		// Here, and not in vegeta: there a pause could not be interrupted.
		if early := at.begin - elapsed; early > 0 && s.sleep(s.ctx, early) != nil {
			return 0, true
		}
		// Only the number of requests ends a phase, whatever its pacer says: a
		// falling ramp that is late has come to send less than nothing.
		pause, _ := at.Pacer.Pace(max(0, elapsed-at.begin), hits-at.first)
		return pause, false
	}
	return 0, true
}

func (s stages) Rate(elapsed time.Duration) float64 {
	for _, at := range s.list {
		if elapsed < at.begin+at.length && at.end > at.first {
			return at.Pacer.Rate(max(0, elapsed-at.begin))
		}
	}
	return 0
}

// burst sends size requests at once, then waits for the next full interval.
type burst struct {
	size  uint64
	every time.Duration
}

func (b burst) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	due := time.Duration(hits/b.size) * b.every
	return max(0, due-elapsed), false
}

func (b burst) Rate(time.Duration) float64 { return float64(b.size) / b.every.Seconds() }
