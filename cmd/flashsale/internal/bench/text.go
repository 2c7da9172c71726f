package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "\t\tours\tcounterpart\t\tratio\ttarget\tmet\tCPU µs¹\tcounterpart's\n")
	var notes []string
	for _, row := range r.Rows {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", row.Item, row.Name, row.cells())
		if row.Note != "" {
			notes = append(notes, row.Item+"  "+row.Note)
		}
	}
	_ = table.Flush() // into memory
	out.WriteString("\nMedians of " + strconv.Itoa(r.Rounds) + " rounds of " + strconv.Itoa(r.Seconds) +
		" s, ours and the counterpart in turn; the ratio is the median of the rounds' ratios. " +
		strconv.Itoa(r.Connections) + " connections.\n")
	if r.Machine.CPUTimes {
		out.WriteString("¹ CPU time per request: app + Redis + MySQL.\n")
	} else {
		out.WriteString("¹ CPU times are known on Linux only.\n")
	}
	for _, note := range notes {
		out.WriteString(note + "\n")
	}
	out.WriteString(r.Machine.String() + "\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// cells are the columns from "ours" on.
func (r Row) cells() string {
	switch {
	case r.Needs != "":
		return "needs " + r.Needs
	case r.Error != "":
		first, _, _ := strings.Cut(r.Error, "\n")
		return "FAILED: " + first
	}
	counterpart, ratio := "", ""
	if r.Counterpart != 0 {
		counterpart, ratio = figure(r.Counterpart), figure(r.Ratio)
	}
	met := "?"
	if r.Met != nil {
		met = map[bool]string{true: "yes", false: "NO"}[*r.Met]
	}
	return strings.Join([]string{figure(r.Ours), counterpart, r.Unit, ratio, r.Target.String(), met, r.CPU.String(), r.CounterpartCPU.String()}, "\t")
}

// String is such as "≥ 0.85".
func (t Target) String() string {
	if t.AtLeast {
		return "≥ " + figure(t.Bound)
	}
	return "≤ " + figure(t.Bound)
}

// String is such as "38 + 12 + 9".
func (c *CPU) String() string {
	if c == nil {
		return ""
	}
	text := figure(c.App)
	for _, store := range []*float64{c.Redis, c.MySQL} {
		if store != nil {
			text += " + " + figure(*store)
		}
	}
	return text
}

// String is one line.
func (m Machine) String() string {
	parts := []string{strconv.Itoa(m.Cores) + " cores", m.CPU, m.OS, m.Go, m.Redis, m.MySQL, m.Wrk}
	var known []string
	for _, part := range parts {
		if part != "" {
			known = append(known, part)
		}
	}
	return strings.Join(known, ", ")
}

// figure writes a number with three digits that mean something, or all those
// before the point, with commas.
func figure(v float64) string {
	abs := math.Abs(v)
	switch {
	case abs == 0:
		return "0"
	case abs < 0.01:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case abs < 10:
		return strings.TrimSuffix(strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".0")
	case abs < 100:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
