package report

import (
	"time"

	"flashsale/loadtest/judge"
)

// meanings of an answer, in the order in which the charts stack them. Each is
// also the name of its colour.
var meanings = [...]string{"accepted", "refused", "limited", "failed"}

// meaning is the index of what an answer with a status means.
func meaning(status int) int {
	switch {
	case status/100 == 2:
		return 0
	case status == 429:
		return 2
	case status >= 300 && status < 500:
		return 1
	}
	return 3
}

// timeline counts the attack's answers in each step of time from the first
// request on, by what they mean.
type timeline struct {
	step   time.Duration
	counts [][len(meanings)]int
}

// maxSteps are enough to show a burst, and few enough to draw.
const maxSteps = 120

// newTimeline counts the answers from first to end.
func newTimeline(requests []judge.Request, first, end time.Time) timeline {
	if !end.After(first) {
		return timeline{}
	}
	line := timeline{step: roundStep(end.Sub(first))}
	line.counts = make([][len(meanings)]int, end.Sub(first)/line.step+1)
	for _, q := range requests {
		if q.Attack {
			line.counts[q.End().Sub(first)/line.step][meaning(q.Status)]++
		}
	}
	return line
}

// span is the time that the timeline covers.
func (t timeline) span() time.Duration { return time.Duration(len(t.counts)) * t.step }

// roundStep is the smallest round step that covers d in maxSteps.
func roundStep(d time.Duration) time.Duration {
	for step := time.Millisecond; ; step *= 10 {
		for _, s := range []time.Duration{step, 2 * step, 5 * step} {
			if d/s < maxSteps {
				return s
			}
		}
	}
}
