package loadtest

import (
	"context"
	"math"
	"slices"
	"time"

	"flashsale/loadtest/client"
)

// pace is the attack's phases as a vegeta pacer that ends after c.requests(),
// or with ctx.
func pace(ctx context.Context, c Config) stages {
	s := stages{ctx: ctx, sleep: client.Wait, atOnce: c.InFlight > 0}
	var begin time.Duration
	var n uint64
	for _, p := range c.phases() {
		first := n
		n += uint64(p.requests())
		s.list = append(s.list, stage{Phase: p, begin: begin, first: first, end: n})
		begin += p.Duration
	}
	return s
}

// stages are phases, one after the other. Each ends after its number of
// requests, not after its duration: a busy machine may send late, and must send
// all. The next phase begins late then, and catches up.
type stages struct {
	ctx   context.Context // a pacer is given none
	sleep func(context.Context, time.Duration) error
	list  []stage

	atOnce bool // requests wait only for a free worker
}

type stage struct {
	Phase
	begin      time.Duration
	first, end uint64 // requests before it, and after it
}

// Pace is how long to wait before the next request, where so many were sent.
func (s stages) Pace(elapsed time.Duration, sent uint64) (wait time.Duration, stop bool) {
	i := s.stageOf(sent)
	if i < 0 || s.atOnce {
		return 0, i < 0
	}
	// Wait here: a pause in vegeta could not be interrupted.
	begin := s.list[i].begin
	if early := begin - elapsed; early > 0 && s.sleep(s.ctx, early) != nil {
		return 0, true
	}
	return max(0, s.due(sent)-max(elapsed, begin)), false
}

// Rate is there for vegeta's interface. An attack does not ask for it.
func (s stages) Rate(time.Duration) float64 { return 0 }

// stageOf is the index of the stage of request n, from 0 on; -1: there is no
// such request.
func (s stages) stageOf(n uint64) int {
	return slices.IndexFunc(s.list, func(at stage) bool { return n < at.end })
}

// due is when request n is to be sent, from the begin of the attack.
func (s stages) due(n uint64) time.Duration {
	at := s.list[s.stageOf(n)]
	return at.begin + at.Phase.due(n-at.first)
}

// due is when request n of the phase is to be sent, from the begin of the phase.
func (p Phase) due(n uint64) time.Duration {
	switch p.Shape {
	case Ramp:
		// Until t, a ramp sends from·t + slope·t²/2 requests.
		from, to := p.ends()
		slope := float64(to-from) / p.Duration.Seconds()
		root := math.Sqrt(max(0, float64(from*from)+2*slope*float64(n)))
		return time.Duration(2 * float64(n) / (float64(from) + root) * float64(time.Second))
	case Burst: // a second's worth at once
		return time.Duration(n/uint64(p.Rate)) * time.Second
	}
	return time.Duration(n) * time.Second / time.Duration(p.Rate)
}
