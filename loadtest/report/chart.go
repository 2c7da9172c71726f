package report

import (
	"fmt"
	"math"
)

// All coordinates of charts are in units of the SVG's viewBox.

const chartWidth, chartHeight = 960, 220

// timeTicks returns the marks on the time axis of both charts.
func (rep *Report) timeTicks() []tick {
	span := rep.span.Seconds()
	top, step := niceTop(span)
	return ticks(0, min(top, span), step, func(v float64) float64 { return chartWidth * v / span },
		func(v float64) string { return fmt.Sprintf("%gs", Round(v, 3)) })
}

// tick is a mark on an axis.
type tick struct {
	At    float64
	Label string
}

// ticks returns marks for the values from from to to.
func ticks(from, to, step float64, at func(float64) float64, label func(float64) string) (list []tick) {
	for v := from; v <= to; v += step {
		list = append(list, tick{at(v), label(v)})
	}
	return list
}

// niceTop returns a round number of at least v, and a round step that divides it into at most six
// parts.
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
