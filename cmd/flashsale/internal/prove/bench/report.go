package bench

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"flashsale/loadtest/report"
)

// A Report is the result of one run.
type Report struct {
	Machine     Machine `json:"machine"`
	Rounds      int     `json:"rounds"`
	Seconds     int     `json:"seconds"`
	Connections int     `json:"connections"`
	Rows        []Row   `json:"rows"`

	failed []error
}

// A Machine describes the machine and the versions that the figures belong to.
type Machine struct {
	Cores int    `json:"cores"`
	CPU   string `json:"cpu,omitempty"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	Redis string `json:"redis"`
	MySQL string `json:"mysql"`
	Wrk   string `json:"wrk,omitempty"`
	// CPUTimes is true if this system reports the CPU time of processes.
	CPUTimes bool `json:"cpu_times"`
}

// Err returns the errors of failed benchmarks. A missed target is not an error.
func (r *Report) Err() error { return errors.Join(r.failed...) }

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return report.JSON(w, r) }

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var t report.Text
	t.Row("", "", "ours", "counterpart", "", "ratio", "target", "met", "CPU µs¹", "counterpart's")
	for _, row := range r.Rows {
		t.Row(append([]any{row.Item, row.Name}, row.cells()...)...)
	}
	t.Line("\nMedians of %d rounds of %d s, ours and the counterpart in turn; the ratio is the median of the rounds' ratios. %d connections.",
		r.Rounds, r.Seconds, r.Connections)
	if r.Machine.CPUTimes {
		t.Line("¹ CPU time per request: app + Redis + MySQL.")
	} else {
		t.Line("¹ CPU times are known on Linux only.")
	}
	for _, row := range r.Rows {
		if row.Note != "" {
			t.Line("%s  %s", row.Item, row.Note)
		}
	}
	t.Line("%s", r.Machine)
	return t.Write(w)
}

// cells returns the columns from "ours" on.
func (r Row) cells() []any {
	switch {
	case r.Needs != "":
		return []any{"needs " + r.Needs}
	case r.Error != "":
		first, _, _ := strings.Cut(r.Error, "\n")
		return []any{"FAILED: " + first}
	}
	counterpart, ratio := "", ""
	if r.Counterpart != 0 {
		counterpart, ratio = report.Figure(r.Counterpart), report.Figure(r.Ratio)
	}
	met := "?"
	switch {
	case r.Target == (Target{}):
		met = ""
	case r.Met != nil:
		met = map[bool]string{true: "yes", false: "NO"}[*r.Met]
	}
	return []any{report.Figure(r.Ours), counterpart, r.Unit, ratio, r.Target, met, r.CPU, r.CounterpartCPU}
}

// String returns text such as "≥ 0.85".
func (t Target) String() string {
	switch {
	case t == Target{}:
		return ""
	case t.AtLeast:
		return "≥ " + report.Figure(t.Bound)
	}
	return "≤ " + report.Figure(t.Bound)
}

// String returns text such as "38 + 12 + 9".
func (c *CPU) String() string {
	if c == nil {
		return ""
	}
	text := report.Figure(c.App)
	for _, store := range []*float64{c.Redis, c.MySQL} {
		if store != nil {
			text += " + " + report.Figure(*store)
		}
	}
	return text
}

// String returns the description in one line.
func (m Machine) String() string {
	parts := []string{strconv.Itoa(m.Cores) + " cores", m.CPU, m.OS, m.Go, m.Redis, m.MySQL, m.Wrk}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}
