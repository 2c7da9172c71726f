package loadtest

import (
	"context"
	"math"
	"slices"
	"time"

	"flashsale/loadtest/client"
)

// pace returns a vegeta pacer for the phases of c. It stops after c.requests() or when
// ctx ends.
func pace(ctx context.Context, c Config) stages {
	s := stages{ctx: ctx, sleep: client.Wait, atOnce: c.InFlight > 0 && !c.Paced}
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

// stages is a list of phases. Each phase ends after its number of requests, even if
// that takes longer than its duration because the machine is busy. The next phase then
// starts late and catches up.
type stages struct {
	ctx   context.Context // vegeta passes no context to a pacer
	sleep func(context.Context, time.Duration) error
	list  []stage

	atOnce bool // a request waits only for a free worker
}

type stage struct {
	Phase
	begin      time.Duration
	first, end uint64 // first request of the stage, and first request after it
}

// Pace implements vegeta.Pacer. It returns the time to wait before the next request.
func (s stages) Pace(elapsed time.Duration, sent uint64) (wait time.Duration, stop bool) {
	i := s.stageOf(sent)
	if i < 0 || s.atOnce {
		return 0, i < 0
	}
	// Wait here, because a wait in vegeta cannot be interrupted.
	begin := s.list[i].begin
	if early := begin - elapsed; early > 0 && s.sleep(s.ctx, early) != nil {
		return 0, true
	}
	return max(0, s.due(sent)-max(elapsed, begin)), false
}

// Rate implements vegeta.Pacer. Attacks do not call it.
func (s stages) Rate(time.Duration) float64 { return 0 }

// stageOf returns the index of the stage of request n, or -1 if no stage has a request n.
func (s stages) stageOf(n uint64) int {
	return slices.IndexFunc(s.list, func(at stage) bool { return n < at.end })
}

// due returns the time from the start of the attack to request n.
func (s stages) due(n uint64) time.Duration {
	at := s.list[s.stageOf(n)]
	return at.begin + at.Phase.due(n-at.first)
}

// due returns the time from the start of the phase to its request n.
func (p Phase) due(n uint64) time.Duration {
	switch p.Shape {
	case Ramp:
		// After t seconds, a ramp has sent from·t + slope·t²/2 requests.
		from, to := p.ends()
		slope := float64(to-from) / p.Duration.Seconds()
		root := math.Sqrt(max(0, float64(from*from)+2*slope*float64(n)))
		return time.Duration(2 * float64(n) / (float64(from) + root) * float64(time.Second))
	case Burst:
		return time.Duration(n/uint64(p.Rate)) * time.Second
	}
	return time.Duration(n) * time.Second / time.Duration(p.Rate)
}
