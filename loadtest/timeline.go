package loadtest

import "time"

// slice is the attack's answers that arrived within one step of time.
type slice struct {
	at                                 time.Duration // since the first request
	accepted, refused, limited, failed int
}

// slices many enough to show a burst, few enough to draw.
const maxSlices = 120

// timeline counts answers per step of time, by what they mean.
func timeline(requests []Request, first time.Time) []slice {
	var end time.Duration
	for _, q := range requests {
		if q.Attack {
			end = max(end, q.End().Sub(first))
		}
	}
	if end <= 0 {
		return nil
	}
	step := timeStep(end)
	line := make([]slice, int(end/step)+1)
	for i := range line {
		line[i].at = time.Duration(i) * step
	}
	for _, q := range requests {
		if !q.Attack {
			continue
		}
		s := &line[int(q.End().Sub(first)/step)]
		switch {
		case q.Status/100 == 2:
			s.accepted++
		case q.Status == 429:
			s.limited++
		case q.refuses():
			s.refused++
		default:
			s.failed++
		}
	}
	return line
}

// timeStep is the smallest round step that covers d in maxSlices.
func timeStep(d time.Duration) time.Duration {
	for step := time.Millisecond; ; step *= 10 {
		for _, s := range []time.Duration{step, 2 * step, 5 * step} {
			if d/s < maxSlices {
				return s
			}
		}
	}
}
