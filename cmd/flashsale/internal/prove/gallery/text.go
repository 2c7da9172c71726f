package gallery

import (
	"fmt"
	"io"
	"strings"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var t report.Text
	t.Row("variant", "durable/s", "p99", "oversold", "undersold", "leaked", "verdict")
	for _, row := range r.Rows {
		speed, p99 := "-", "-"
		if row.DurablePerS > 0 {
			speed, p99 = report.Thousands(row.DurablePerS), fmt.Sprintf("%.0f ms", row.P99MS)
		}
		t.Row(row.Name, speed, p99, row.Oversold, row.Undersold, row.Leaked, row.said())
	}
	t.Line("")
	for _, row := range r.Rows {
		if row.Broken {
			t.Line("%s: %s [%s]", row.Name, row.Breaks, row.Source)
		}
		if row.Note != "" {
			t.Line("%s: %s", row.Name, row.Note)
		}
	}
	for _, row := range r.Rows {
		switch {
		case row.Error != "":
			t.Line("\n%s: ERROR: %s", row.Name, row.Error)
		case !row.AsExpected():
			t.Line("\n%s: NOT AS EXPECTED in %d of %d rounds:\n  %s", row.Name, row.Rounds-row.right(), row.Rounds, strings.Join(row.Details, "\n  "))
		}
	}
	if ratio, than := r.Ratio(); ratio > 0 {
		t.Line("\n%s stores %.1f times as many orders as the fastest other that passes, %s.", ours, ratio, than)
	}
	t.Line("\n%s", r.circumstances())
	return t.Write(w)
}

func (r *Report) circumstances() string {
	text := fmt.Sprintf("Judged in %s of two sales under attack by %d orders/s: one with slow stores, one with two kills. Seed %d.",
		judge.Plural(r.Rounds, "round"), r.Rate, r.Seed)
	if r.SpeedSeconds > 0 {
		text += fmt.Sprintf("\nSpeed without harm: %d callers for %gs, orders by their rows.", r.Callers, r.SpeedSeconds)
	}
	return text + fmt.Sprintf(" %d cores, %s.", r.Cores, r.Stores)
}

// WriteSVG writes the chart: durable orders per second, and who passed.
func (r *Report) WriteSVG(w io.Writer) error {
	c := report.Bars{
		Title: "Durable orders per second",
		About: "Durable orders per second of each variant, and whether it passed",
		Foot:  fmt.Sprintf("%d callers, %d cores, %s", r.Callers, r.Cores, r.Stores),
	}
	for _, row := range r.Rows {
		c.Add(row.group(), report.Bar{
			Name: row.Name, Value: row.DurablePerS, Said: row.said(),
			Good: row.Passed == row.Rounds && row.Rounds > 0 && row.Error == "",
		})
	}
	return c.WriteSVG(w)
}

// group is the heading under which the row is shown.
func (r *Row) group() string {
	switch {
	case r.Broken:
		return "Wrong, and caught by the verdict"
	case r.Name == ours:
		return "This project"
	}
	return "Right"
}
