package loadtest

import (
	"context"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/client"
)

// pace is the attack's phases as a vegeta pacer that ends after c.requests(),
// or with ctx.
func pace(ctx context.Context, c Config) vegeta.Pacer {
	s := stages{ctx: ctx, sleep: client.Wait}
	var begin time.Duration
	var n uint64
	for _, p := range c.phases() {
		first := n
		n += uint64(p.requests())
		s.list = append(s.list, stage{Pacer: p.pacer(), begin: begin, first: first, end: n})
		begin += p.Duration
	}
	return s
}

// pacer is the shape of the phase. It does not end by itself.
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
// requests, not after its duration: a busy machine may send late, and must send
// all. The next phase begins late then, and catches up.
type stages struct {
	ctx   context.Context // a pacer is given none
	sleep func(context.Context, time.Duration) error
	list  []stage
}

type stage struct {
	vegeta.Pacer
	begin      time.Duration
	first, end uint64 // hits before it, and after it
}

func (s stages) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	for _, at := range s.list {
		if hits >= at.end {
			continue
		}
		// Wait here: a pause in vegeta could not be interrupted.
		if early := at.begin - elapsed; early > 0 && s.sleep(s.ctx, early) != nil {
			return 0, true
		}
		// Only the number of requests ends a phase. A falling ramp that is late
		// would end by itself, because its rate falls below 0.
		pause, _ := at.Pacer.Pace(max(0, elapsed-at.begin), hits-at.first)
		return pause, false
	}
	return 0, true
}

// Rate is there for vegeta's interface. An attack does not ask for it.
func (s stages) Rate(time.Duration) float64 { return 0 }

// burst sends size requests at once, then waits for the next full interval.
type burst struct {
	size  uint64
	every time.Duration
}

func (b burst) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	due := time.Duration(hits/b.size) * b.every
	return max(0, due-elapsed), false
}

// Rate is there for vegeta's interface, too.
func (b burst) Rate(time.Duration) float64 { return 0 }
