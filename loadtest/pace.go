package loadtest

import (
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// pace is the attack's shape as a vegeta pacer that ends after c.requests().
func pace(c Config) vegeta.Pacer {
	q := quota{n: uint64(c.requests())}
	switch c.Shape {
	case Ramp:
		start := max(1, c.Rate/10)
		// From start to 2×Rate−start, so that the mean is Rate.
		slope := 2 * float64(c.Rate-start) / c.Duration.Seconds()
		q.Pacer = vegeta.LinearPacer{StartAt: vegeta.Rate{Freq: start, Per: time.Second}, Slope: slope}
	case Burst:
		q.Pacer = burst{size: uint64(c.Rate), every: time.Second}
	default:
		q.Pacer = vegeta.Rate{Freq: c.Rate, Per: time.Second}
	}
	return q
}

// quota ends an attack after exactly n requests. A duration would cut off
// what a busy machine could not send in time.
type quota struct {
	vegeta.Pacer
	n uint64
}

func (q quota) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	if hits >= q.n {
		return 0, true
	}
	return q.Pacer.Pace(elapsed, hits)
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
