package loadtest

import (
	"fmt"
	"strings"
	"time"
)

// course is the stock over time as a line in steps, on the same axis of time as
// the columns of answers.
type course struct {
	W, H           float64
	Line, Area     string // SVG paths
	Zero           float64
	Below          bool // the stock went below 0
	XTicks, YTicks []tick
	Caption        string
}

const courseHeight = 160

func (rep *Report) course() course {
	c := course{W: chartWidth, H: courseHeight, XTicks: rep.columns().XTicks}
	span := rep.span()
	if len(rep.stock) == 0 || span == 0 {
		return c
	}
	low, high := 0, rep.Total
	for _, p := range rep.stock {
		low, high = min(low, p.available), max(high, p.available)
	}
	_, step := niceTop(float64(high - low))
	bottom := 0.0
	for bottom > float64(low) {
		bottom -= step
	}
	top := 0.0
	for top < float64(high) {
		top += step
	}
	y := func(v float64) float64 { return courseHeight * (top - v) / (top - bottom) }
	for v := bottom; v <= top; v += step {
		c.YTicks = append(c.YTicks, tick{y(v), compact(v)})
	}
	c.Zero, c.Below = y(0), low < 0

	var line strings.Builder
	fmt.Fprintf(&line, "M0 %.1f", y(float64(rep.Total)))
	x := 0.0
	for _, p := range rep.stock {
		at := p.at.Sub(rep.first)
		if at < 0 {
			continue // the sale was open, and nobody had come yet
		}
		x = chartWidth * min(1, at.Seconds()/span.Seconds())
		fmt.Fprintf(&line, "H%.1fV%.1f", x, y(float64(p.available)))
	}
	c.Line = line.String()
	c.Area = fmt.Sprintf("%sV%.1fH0Z", c.Line, c.Zero)
	c.Caption = rep.courseInWords(low)
	return c
}

// courseInWords says what the line shows.
func (rep *Report) courseInWords(low int) string {
	switch out, gone := rep.soldOutAfter(); {
	case low < 0:
		return fmt.Sprintf("It went down to %d: the gate let more through than there was.", low)
	case gone:
		return fmt.Sprintf("Sold out for the first time after %s. Units of cancelled orders come back, and are sold again.", human(out))
	}
	return fmt.Sprintf("Not seen sold out during the attack: %d of %d left at the least.", rep.least(), rep.Total)
}

// soldOutAfter is when the stock was first read to be gone, from the first
// request on.
func (rep *Report) soldOutAfter() (time.Duration, bool) {
	for _, p := range rep.stock {
		if p.available <= 0 {
			return max(0, p.at.Sub(rep.first)), true
		}
	}
	return 0, false
}

func (rep *Report) least() int {
	least := rep.Total
	for _, p := range rep.stock {
		least = min(least, p.available)
	}
	return least
}

// span is the time that the charts cover.
func (rep *Report) span() time.Duration {
	if len(rep.timeline) == 0 {
		return 0
	}
	return time.Duration(len(rep.timeline)) * rep.columns().Step
}
