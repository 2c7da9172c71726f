package report

import (
	"fmt"
	"io"
)

// Bars is a chart of horizontal bars, in groups with a heading each.
type Bars struct {
	Title, About, Foot string // About describes the chart to those who cannot see it

	bars     []Bar
	headings []heading
	bottom   float64
}

// Bar is one bar of the chart.
type Bar struct {
	Name  string
	Value float64 // 0: not known
	Said  string  // text after the bar
	Good  bool    // the colour of the bar and of Said

	Y, Width float64
}

type heading struct {
	Y    float64
	Text string
}

// Geometry of the chart, in its own units.
const (
	maxBar    = 480 // the longest bar
	rowHeight = 26
	headroom  = 56
	groupGap  = 30
)

// Add adds a bar at the end. A new group gets its heading.
func (c *Bars) Add(group string, b Bar) {
	if n := len(c.headings); n == 0 || c.headings[n-1].Text != group {
		c.bottom += groupGap
		if n == 0 {
			c.bottom = headroom
		}
		c.headings = append(c.headings, heading{c.bottom - 10, group})
	}
	b.Y = c.bottom
	c.bottom += rowHeight
	c.bars = append(c.bars, b)
}

// WriteSVG draws the chart.
func (c *Bars) WriteSVG(w io.Writer) error {
	longest := 1.0
	for _, b := range c.bars {
		longest = max(longest, b.Value)
	}
	for i := range c.bars {
		c.bars[i].Width = max(maxBar*c.bars[i].Value/longest, 1)
	}
	view := struct {
		*Bars
		Height   float64
		Rows     []Bar
		Headings []heading
	}{c, max(c.bottom, headroom) + 34, c.bars, c.headings}
	if err := pages.ExecuteTemplate(w, "bars.svg", view); err != nil {
		return fmt.Errorf("draw the bars: %w", err)
	}
	return nil
}
