package gallery

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "variant\tdurable/s\tp99\toversold\tundersold\tleaked\tverdict\n")
	for _, row := range r.Rows {
		speed, p99 := "-", "-"
		if row.DurablePerS > 0 {
			speed, p99 = thousands(row.DurablePerS), fmt.Sprintf("%.0f ms", row.P99MS)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", row.Name, speed, p99, row.Oversold, row.Undersold, row.Leaked, row.said())
	}
	_ = t.Flush() // into memory
	out.WriteString("\n")
	for _, row := range r.Rows {
		if row.Broken {
			fmt.Fprintf(&out, "%s: %s [%s]\n", row.Name, row.Breaks, row.Source)
		}
		if row.Note != "" {
			fmt.Fprintf(&out, "%s: %s\n", row.Name, row.Note)
		}
	}
	for _, row := range r.Rows {
		switch {
		case row.Error != "":
			fmt.Fprintf(&out, "\n%s: ERROR: %s\n", row.Name, row.Error)
		case !row.AsExpected():
			fmt.Fprintf(&out, "\n%s: NOT AS EXPECTED in %d of %d rounds:\n  %s\n", row.Name, row.unexpected(), row.Rounds, strings.Join(row.Details, "\n  "))
		}
	}
	if ratio, than := r.Ratio(); ratio > 0 {
		fmt.Fprintf(&out, "\n%s stores %.1f times as many orders as the fastest other that passes, %s.\n", ours, ratio, than)
	}
	fmt.Fprintf(&out, "\n%s\n", r.circumstances())
	_, err := io.WriteString(w, out.String())
	return err
}

func (r *Row) unexpected() int {
	if r.Broken {
		return r.Rounds - r.ByItsOwn
	}
	return r.Rounds - r.Passed
}

func (r *Report) circumstances() string {
	text := fmt.Sprintf("Judged in %d %s of two sales under attack by %d orders/s: one with slow stores, one with two kills. Seed %d.",
		r.Rounds, map[bool]string{true: "round", false: "rounds"}[r.Rounds == 1], r.Rate, r.Seed)
	if r.SpeedSeconds > 0 {
		text += fmt.Sprintf("\nSpeed without harm: %d callers for %gs, orders by their rows.", r.Callers, r.SpeedSeconds)
	}
	return text + fmt.Sprintf(" %d cores, %s.", r.Cores, r.Stores)
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
