package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"flashsale/loadtest/judge"
)

// StockChart is a chart of the available units over time.
type StockChart struct {
	Line, Area     string  // SVG paths
	ZeroY          float64 // y coordinate of 0 units
	Below          bool    // the stock was negative at some time
	XTicks, YTicks []tick
	Caption        string
}

const stockHeight = 160

// stockOf returns the stock during an attack: the total, minus the units that clients have been
// promised, plus the units that clients have cancelled. It returns at most 1,000 points.
func stockOf(c *judge.Index, first time.Time, span time.Duration) (points []StockPoint) {
	changes := map[time.Duration]int{} // units by time since first, rounded
	add := func(at time.Time, units int) {
		if !at.IsZero() && at.Sub(first) <= span {
			changes[at.Sub(first).Truncate(max(span/1000, 1))] += units
		}
	}
	for _, o := range c.Outcomes {
		for _, id := range o.IDs {
			add(c.PromisedAt(o, id), -o.Quantity)
		}
	}
	cancelled := map[string]bool{}
	for _, cl := range c.Closings {
		if o := c.Ordered[cl.OrderID]; o != nil && cl.Cancel && cl.Done() && !cancelled[cl.OrderID] && !c.OnPayment() {
			cancelled[cl.OrderID] = true
			add(cl.End(), o.Quantity)
		}
	}
	left := c.Total
	for _, after := range slices.Sorted(maps.Keys(changes)) {
		left += changes[after]
		points = append(points, StockPoint{first.Add(after), left})
	}
	return points
}

// StockChart returns the chart of the available units.
func (rep *Report) StockChart() StockChart {
	span := rep.span
	if len(rep.Stock) == 0 || span == 0 {
		return StockChart{}
	}
	c := StockChart{XTicks: rep.timeTicks()}
	least, high := rep.Total, rep.Total
	for _, p := range rep.Stock {
		least, high = min(least, p.Available), max(high, p.Available)
	}
	low := min(0, least)
	_, step := niceTop(float64(high - low))
	bottom, top := step*math.Floor(float64(low)/step), step*math.Ceil(float64(high)/step)
	y := func(v float64) float64 { return stockHeight * (top - v) / (top - bottom) }
	c.YTicks = ticks(bottom, top, step, y, Compact)
	c.ZeroY, c.Below = y(0), low < 0

	var line strings.Builder
	fmt.Fprintf(&line, "M0 %.1f", y(float64(rep.Total)))
	x := 0.0
	for _, p := range rep.Stock {
		at := p.At.Sub(rep.first)
		if at < 0 {
			continue // before the first order
		}
		x = chartWidth * min(1, at.Seconds()/span.Seconds())
		fmt.Fprintf(&line, "H%.1fV%.1f", x, y(float64(p.Available)))
	}
	if x < chartWidth { // the stock stays the same until the end
		fmt.Fprintf(&line, "H%.1f", float64(chartWidth))
	}
	c.Line = line.String()
	c.Area = fmt.Sprintf("%sV%.1fH0Z", c.Line, c.ZeroY)
	c.Caption = rep.stockInWords(least)
	return c
}

// stockInWords describes the chart in a sentence.
func (rep *Report) stockInWords(least int) string {
	after, out := rep.soldOutAfter()
	switch {
	case least < 0:
		return judge.Sprintf("The stock fell to %d: clients were promised more units than the sale had.", least)
	case out:
		return fmt.Sprintf("Sold out for the first time after %s. Units of cancelled orders return to the gate and are sold again.", Human(after))
	}
	return judge.Sprintf("Not sold out during the attack: at least %d of %d units were left.", least, rep.Total)
}

// soldOutAfter returns the time from the first order to the first sell-out, and reports whether
// the sale sold out.
func (rep *Report) soldOutAfter() (time.Duration, bool) {
	out := slices.IndexFunc(rep.Stock, func(p StockPoint) bool { return p.Available <= 0 })
	if out < 0 {
		return 0, false
	}
	return max(0, rep.Stock[out].At.Sub(rep.first)), true
}
