package gallery

import (
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// A Report is the result of a comparison.
type Report struct {
	Stores string `json:"stores"`
	Cores  int    `json:"cores"`
	Rate   int    `json:"rate"` // orders per second of the attacks
	Rounds int    `json:"rounds"`
	Seed   int64  `json:"seed"` // seed of the first round
	Rows   []Row  `json:"rows"`

	Command string `json:"command"` // empty if not known
	Program string `json:"program"` // program with its revision; empty if not known
}

// A Row is the result of one variant. Numbers of units come from its worst round.
type Row struct {
	variants.Variant
	Broken bool `json:"broken"` // wrong on purpose

	Oversold  int `json:"oversold"`
	Undersold int `json:"undersold"`
	Leaked    int `json:"leaked"` // units that the audit cannot account for
	OverLimit int `json:"over_limit"`
	Lost      int `json:"lost"` // orders

	// Figures of the sale with slow stores, in the slowest round.
	DurablePerS float64 `json:"durable_per_s"`
	P99MS       float64 `json:"p99_ms"` // over all answers to orders

	Rounds     int      `json:"rounds"`     // rounds judged
	Failed     int      `json:"failed"`     // rounds in which a promise was broken
	ByItsOwn   int      `json:"by_its_own"` // rounds with the violation in Caught
	Passed     int      `json:"passed"`
	Violations []string `json:"violations"` // names of all violations, over all rounds
	Details    []string `json:"details"`    // details of the first round that did not pass
	Error      string   `json:"error,omitempty"`
}

// NewRow returns the row of a variant that has not been judged.
func NewRow(v variants.Variant) Row {
	return Row{Variant: v, Broken: v.Broken(), Violations: []string{}, Details: []string{}}
}

// judged adds the verdicts of one round.
func (r *Row) judged(verdicts []*report.Report) {
	var broken []string
	var details []string
	open := map[string]int{} // gap or unexercised check → number of trials that have it
	rush := verdicts[0]
	if durable := report.Round(rush.DurablePerS, 1); r.Rounds == 0 || durable < r.DurablePerS {
		r.DurablePerS = durable
	}
	r.P99MS = max(r.P99MS, report.Milliseconds(rush.Latency.P99))
	for _, v := range verdicts {
		r.Lost = max(r.Lost, v.Lost)
		r.Oversold, r.Undersold = max(r.Oversold, v.Oversold), max(r.Undersold, v.Undersold)
		r.OverLimit, r.Leaked = max(r.OverLimit, v.OverLimit), max(r.Leaked, v.Drift)
		for _, x := range v.Violations {
			broken = append(broken, x.Name)
			details = append(details, v.SKU+": "+x.Name+": "+x.Detail)
		}
		for _, x := range v.Gaps {
			open[x.Why] = len(verdicts)
			details = append(details, v.SKU+": could not judge "+x.String())
		}
		for _, x := range v.Unexercised {
			// Another trial may exercise the check.
			if open[x.Why]++; open[x.Why] == len(verdicts) {
				details = append(details, fmt.Sprintf("never exercised: %s (answers: %v)", x, v.Reasons))
			}
		}
	}
	r.Rounds++
	switch {
	case len(broken) > 0:
		r.Failed++
	case !slices.Contains(slices.Collect(maps.Values(open)), len(verdicts)):
		r.Passed++
	}
	if slices.Contains(broken, r.Caught) {
		r.ByItsOwn++
	}
	r.Violations = slices.Compact(slices.Sorted(slices.Values(append(r.Violations, broken...))))
	if len(r.Details) == 0 {
		r.Details = append(r.Details, details...)
	}
}

// AsExpected reports whether each round went as it must. A right variant must pass,
// and a broken variant must have the violation in Caught.
func (r *Row) AsExpected() bool {
	return r.Error == "" && r.Rounds > 0 && r.right() == r.Rounds
}

// right returns how many rounds went as they must.
func (r *Row) right() int {
	if r.Broken {
		return r.ByItsOwn
	}
	return r.Passed
}

// VerdictText returns the verdict in short.
func (r *Row) VerdictText() string {
	switch {
	case r.Error != "":
		return "ERROR"
	case r.Passed == r.Rounds:
		return "PASS"
	case r.Failed == 0:
		return "NOT JUDGED"
	}
	often := ""
	if r.Failed < r.Rounds {
		often = fmt.Sprintf(" in %d of %d", r.Failed, r.Rounds)
	}
	return "FAIL" + often + ": " + strings.Join(r.Violations, ", ")
}

// ExitCode returns 0 if all rows are as expected.
func (r *Report) ExitCode() int {
	code := judge.ExitPass
	for _, row := range r.Rows {
		switch {
		case row.Error != "" || row.Rounds == 0:
			code = max(code, judge.ExitUnjudged)
		case !row.AsExpected():
			return judge.ExitViolation
		}
	}
	return code
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return report.JSON(w, r) }

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var t report.Text
	t.Row("variant", "oversold", "undersold", "leaked", "over limit", "lost", "durable/s¹", "p99¹", "verdict")
	for _, row := range r.Rows {
		figures := judge.Sprintf("%d\t%d\t%d\t%d\t%d\t%.0f", row.Oversold, row.Undersold, row.Leaked, row.OverLimit, row.Lost, row.DurablePerS)
		t.Row(row.Name, figures, row.P99(), row.VerdictText())
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
	t.Line("\n%s Seed %d. %d cores, %s.\n¹ With slow stores.", r.Method(), r.Seed, r.Cores, r.Stores)
	return t.Write(w)
}

// Method describes how the variants were judged.
func (r *Report) Method() string {
	return judge.Sprintf("Judged in %s of two sales under attack by %d orders/s: one with slow stores, one with two kills.", judge.Plural(r.Rounds, "round"), r.Rate)
}

// P99 returns P99MS as text.
func (r *Row) P99() string { return report.Human(time.Duration(r.P99MS * float64(time.Millisecond))) }

//go:embed compare.html
var pageFiles embed.FS

var writePage = report.Pages(pageFiles)

// WriteHTML writes the report as one HTML page without external files.
func (r *Report) WriteHTML(w io.Writer) error { return writePage(w, "compare.html", r) }

// Save writes compare.html, compare.json and compare.txt into dir. It creates dir
// if needed.
func (r *Report) Save(dir string) error {
	return report.Save(dir, map[string]func(io.Writer) error{
		"compare.html": r.WriteHTML, "compare.json": r.WriteJSON, "compare.txt": r.WriteText,
	})
}
