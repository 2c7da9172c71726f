package report

import (
	"fmt"
	"math"
	"time"

	"flashsale/loadtest/judge"
)

// All coordinates below are in the units of the chart's viewBox.

// column is one step of time in the chart of answers.
type column struct {
	X, W  float64
	Title string
	Parts []span
}

type span struct {
	Class string
	Y, H  float64
}

// columns is the chart of answers per second, stacked by meaning.
type columns struct {
	Columns        []column
	XTicks, YTicks []tick
	Step           time.Duration
}

const chartWidth, chartHeight = 960, 220

func (rep *Report) Columns() columns {
	var c columns
	line := rep.timeline
	if len(line.counts) == 0 {
		return c
	}
	c.Step = line.step
	perSecond := func(n int) float64 { return float64(n) / c.Step.Seconds() }
	top := 0.0
	for _, n := range line.counts {
		top = max(top, perSecond(n[0]+n[1]+n[2]+n[3]))
	}
	var stepY float64
	top, stepY = niceTop(top)
	c.YTicks = ticks(0, top, stepY, func(v float64) float64 { return chartHeight * (1 - v/top) }, Compact)
	w := chartWidth / float64(len(line.counts))
	for i, n := range line.counts {
		col := column{X: float64(i) * w, W: max(w-min(1.5, w/4), 0.5)}
		col.Title = judge.Sprintf("%v: %d accepted, %d refused, %d limited, %d without a proper answer",
			time.Duration(i)*c.Step, n[0], n[1], n[2], n[3])
		y := float64(chartHeight)
		for m, class := range meanings {
			if h := chartHeight * perSecond(n[m]) / top; h > 0 {
				y -= h
				col.Parts = append(col.Parts, span{class, y, h})
			}
		}
		c.Columns = append(c.Columns, col)
	}
	whole := line.span().Seconds()
	xTop, stepX := niceTop(whole)
	c.XTicks = ticks(0, min(xTop, whole), stepX, func(v float64) float64 { return chartWidth * v / whole },
		func(v float64) string { return fmt.Sprintf("%gs", Round(v, 3)) })
	return c
}

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
