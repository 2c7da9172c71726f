package drill

import (
	"fmt"
	"io"
	"strings"
	"time"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// A Report is the result of one run.
type Report struct {
	Seed     int64   `json:"seed"`
	Rate     int     `json:"rate"`    // orders per second
	Seconds  float64 `json:"seconds"` // of each attack
	Strategy string  `json:"strategy"`
	Stores   string  `json:"stores"`
	Drills   []Row   `json:"drills"`
}

// A Row is what came of one drill.
type Row struct {
	Name         string   `json:"name"`
	Verdict      string   `json:"verdict"`        // PASS, FAIL, NOT JUDGED; or ERROR: it could not be carried out
	Attempts     int      `json:"attempts"`       // orders that the attack asked for
	Orders       int      `json:"orders"`         // durable, also those of the fresh buyers after it
	LongestGapMS float64  `json:"longest_gap_ms"` // without a yes, while there was something to sell
	Unavailable  int      `json:"unavailable"`    // 503s
	NoAnswer     int      `json:"no_answer"`
	Errors       float64  `json:"errors"`     // share of the attempts: both of these
	Done         []string `json:"done"`       // the steps of the fault, with their times in the attack
	Violations   []string `json:"violations"` // or why there is no verdict
	Error        string   `json:"error,omitempty"`
	Logs         string   `json:"logs,omitempty"` // directory; if they were kept

	exit int
}

// errored is the verdict on a drill that could not be carried out.
const errored = "ERROR"

// judge fills in what the load test and the buyers have to say.
func (r *Row) judge(v *report.Report, attack time.Duration) {
	r.exit, r.Verdict = v.ExitCode(), v.Word()
	r.Attempts, r.Orders = v.Attempts, v.Durable
	r.Unavailable, r.NoAnswer = v.Answers["503"], v.Answers["0"]
	if v.Attempts > 0 {
		r.Errors = report.Round(float64(r.Unavailable+r.NoAnswer)/float64(v.Attempts), 4)
	}
	r.LongestGapMS = report.Round(report.Milliseconds(longestGap(v.Evidence.Requests, attack)), 1)
	for _, x := range v.Violations {
		r.Violations = append(r.Violations, x.Name+": "+x.Detail)
	}
	for _, x := range v.Gaps {
		r.Violations = append(r.Violations, "could not judge "+x.String())
	}
	for _, x := range v.Unexercised {
		r.Violations = append(r.Violations, "never exercised: "+x.String())
	}
}

// breaks adds what the drill itself saw.
func (r *Row) breaks(broken []string) {
	if len(broken) > 0 {
		r.exit, r.Verdict = judge.ExitViolation, judge.Word(judge.ExitViolation)
		r.Violations = append(broken, r.Violations...)
	}
}

// unjudged is the verdict on a drill that the strategy has nothing for.
func (r *Row) unjudged(why string) {
	r.exit, r.Verdict, r.Violations = judge.ExitUnjudged, judge.Word(judge.ExitUnjudged), []string{why}
}

func (r *Row) fail(err error) {
	r.Verdict, r.Error = errored, err.Error()
}

// ExitCode is the worst of the verdicts, as the load test's. A drill that could
// not be carried out is one that could not be judged.
func (r *Report) ExitCode() int {
	code := judge.ExitPass
	for _, row := range r.Drills {
		switch {
		case row.exit == judge.ExitViolation:
			return judge.ExitViolation
		case row.exit != judge.ExitPass || row.Verdict == errored:
			code = judge.ExitUnjudged
		}
	}
	return code
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return report.JSON(w, r) }

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var t report.Text
	t.Row("drill", "verdict", "orders", "longest gap", "errors", "what was done")
	for _, row := range r.Drills {
		t.Row(row.Name, row.Verdict, row.Orders, fmt.Sprintf("%.2fs", row.LongestGapMS/1000), fmt.Sprintf("%.1f %%", row.Errors*100), strings.Join(row.Done, ", "))
	}
	for _, row := range r.Drills {
		for _, line := range row.Violations {
			t.Line("%s: %s", row.Name, line)
		}
		if row.Error != "" {
			t.Line("%s: could not be carried out: %s", row.Name, row.Error)
		}
		if row.Logs != "" {
			t.Line("%s: logs kept in %s", row.Name, row.Logs)
		}
	}
	t.Line("\nThree nodes, %d orders/s for %gs each, strategy %s, seed %d. %s", r.Rate, r.Seconds, r.Strategy, r.Seed, r.Stores)
	t.Line("longest gap: without a yes (201), while there was something to sell. errors: 503 or no answer.")
	return t.Write(w)
}
