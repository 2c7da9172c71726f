package report

import "math"

// tick is a mark on an axis.
type tick struct {
	At    float64
	Label string
}

// ticks are marks from one value to another, step by step.
func ticks(from, to, step float64, at func(float64) float64, label func(float64) string) (list []tick) {
	for v := from; v <= to; v += step {
		list = append(list, tick{at(v), label(v)})
	}
	return list
}

// niceTop returns a round number that is at least v, and a round step that
// divides it into at most six parts.
func niceTop(v float64) (top, step float64) {
	if v <= 0 {
		return 1, 0.5
	}
	unit := math.Pow(10, math.Floor(math.Log10(v/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		step = m * unit
		if top = step * math.Ceil(v/step); top/step <= 6 {
			return top, step
		}
	}
	return top, step
}
