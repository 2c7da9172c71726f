package loadtest

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Geometry of the report's charts: what the template draws as SVG. All
// coordinates are in the units of each chart's viewBox.

// part is one stretch of a bar.
type part struct {
	Label, Class string
	N            int
	X, W         float64
}

// unitsBar lays the units of the sale end to end, 0..1000 wide for whichever
// is more, the total or the parts.
type unitsBar struct {
	Parts []part
	Total float64 // where the total ends; below 1000 when there is more
}

func (rep *Report) unitsBar() unitsBar {
	parts := []part{
		{Label: "paid", Class: "paid", N: rep.Paid},
		{Label: "pending", Class: "pending", N: rep.Pending},
		{Label: "held", Class: "held", N: rep.Held},
		{Label: "restoring", Class: "restoring", N: rep.Restoring},
		{Label: "available", Class: "available", N: rep.Available},
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.N <= 0 })
	sum := 0
	for _, p := range parts {
		sum += p.N
	}
	whole := float64(max(sum, rep.Total, 1))
	x := 0.0
	for i := range parts {
		parts[i].X, parts[i].W = x, 1000*float64(parts[i].N)/whole
		x += parts[i].W
	}
	return unitsBar{parts, 1000 * float64(rep.Total) / whole}
}

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

type tick struct {
	At    float64
	Label string
}

// columns is answers per second over time, stacked by meaning.
type columns struct {
	W, H           float64
	Columns        []column
	XTicks, YTicks []tick
	Step           time.Duration
}

const chartWidth, chartHeight = 960, 220

func (rep *Report) columns() columns {
	c := columns{W: chartWidth, H: chartHeight}
	line := rep.timeline
	if len(line) == 0 {
		return c
	}
	c.Step = timeStep(line[len(line)-1].at + 1)
	if len(line) > 1 {
		c.Step = line[1].at - line[0].at
	}
	perSecond := func(n int) float64 { return float64(n) / c.Step.Seconds() }
	top := 0.0
	for _, s := range line {
		top = max(top, perSecond(s.accepted+s.refused+s.limited+s.failed))
	}
	var stepY float64
	top, stepY = niceTop(top)
	for v := 0.0; v <= top; v += stepY {
		c.YTicks = append(c.YTicks, tick{chartHeight * (1 - v/top), compact(v)})
	}
	w := chartWidth / float64(len(line))
	for i, s := range line {
		col := column{X: float64(i) * w, W: max(w-min(1.5, w/4), 0.5)}
		col.Title = fmt.Sprintf("%v: %d accepted, %d refused, %d limited, %d without a proper answer", s.at, s.accepted, s.refused, s.limited, s.failed)
		y := float64(chartHeight)
		for _, p := range []struct {
			class string
			n     int
		}{{"accepted", s.accepted}, {"refused", s.refused}, {"limited", s.limited}, {"failed", s.failed}} {
			if h := chartHeight * perSecond(p.n) / top; h > 0 {
				y -= h
				col.Parts = append(col.Parts, span{p.class, y, h})
			}
		}
		c.Columns = append(c.Columns, col)
	}
	whole := float64(len(line)) * c.Step.Seconds()
	xTop, stepX := niceTop(whole)
	for v := 0.0; v <= min(xTop, whole); v += stepX {
		c.XTicks = append(c.XTicks, tick{chartWidth * v / whole, fmt.Sprintf("%gs", round(v, 3))})
	}
	return c
}

// strip is one dot per restore probe on an axis of milliseconds.
type strip struct {
	W, P50, P99 float64
	Dots        []tick
	Ticks       []tick
}

func (rep *Report) strip() strip {
	s := strip{W: chartWidth}
	top, step := niceTop(ms(rep.Restore.Max))
	at := func(d time.Duration) float64 { return chartWidth * ms(d) / top }
	for _, d := range rep.restores {
		s.Dots = append(s.Dots, tick{at(d), human(d)})
	}
	for v := 0.0; v <= top; v += step {
		s.Ticks = append(s.Ticks, tick{chartWidth * v / top, fmt.Sprintf("%gms", round(v, 3))})
	}
	s.P50, s.P99 = at(rep.Restore.P50), at(rep.Restore.P99)
	return s
}

// niceTop is a round number at or above v, and a round step that divides it
// into at most six.
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

// compact is 950, 1.5k, 20k.
func compact(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", round(v/1000, 1))
	}
	return fmt.Sprintf("%g", round(v, 2))
}
