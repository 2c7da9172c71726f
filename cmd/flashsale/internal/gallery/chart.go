package gallery

import (
	_ "embed"
	"fmt"
	"io"
	"text/template"
)

//go:embed chart.svg
var chartText string

var chartTemplate = template.Must(template.New("chart.svg").Parse(chartText))

// Geometry of the chart, in its own units.
const (
	barsFrom  = 190 // where names end
	barsMost  = 480 // the longest bar
	rowHeight = 26
	headroom  = 56
	groupGap  = 30
)

// A bar is one variant in the chart.
type bar struct {
	Y, Width          float64
	Name, Class, Said string
	Speed             string // "" where it was not measured
}

type chart struct {
	Height  float64
	Bars    []bar
	Headers []header
	Foot    string
}

type header struct {
	Y    float64
	Text string
}

func (r *Report) chart() chart {
	most := 1.0
	for _, row := range r.Rows {
		most = max(most, row.DurablePerS)
	}
	c := chart{Foot: fmt.Sprintf("%d callers, %d cores, %s", r.Callers, r.Cores, r.Stores)}
	y, group := float64(headroom), ""
	for _, row := range r.Rows {
		if g := row.group(); g != group {
			if group != "" {
				y += groupGap
			}
			group = g
			c.Headers = append(c.Headers, header{y - 10, g})
		}
		b := bar{Y: y, Width: max(barsMost*row.DurablePerS/most, 1), Name: row.Name, Class: "fail", Said: row.said()}
		if row.DurablePerS > 0 {
			b.Speed = thousands(row.DurablePerS)
		}
		if row.Passed == row.Rounds && row.Rounds > 0 && row.Error == "" {
			b.Class = "pass"
		}
		c.Bars = append(c.Bars, b)
		y += rowHeight
	}
	c.Height = y + 34
	return c
}

// group is under which heading a row is shown.
func (r *Row) group() string {
	switch {
	case r.Broken:
		return "Wrong, and caught by the verdict"
	case r.Name == ours:
		return "This project"
	}
	return "Right"
}

// LabelX is where the text after the bar begins.
func (b bar) LabelX() float64 { return barsFrom + b.Width + 8 }

// TextY is the base line of the bar's texts.
func (b bar) TextY() float64 { return b.Y + 14 }

// WriteSVG writes the picture: durable orders per second, and who passed.
func (r *Report) WriteSVG(w io.Writer) error {
	if err := chartTemplate.Execute(w, r.chart()); err != nil {
		return fmt.Errorf("draw the chart: %w", err)
	}
	return nil
}

// FootY is the base line of the last text.
func (c chart) FootY() float64 { return c.Height - 12 }
