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
	Seed     int64    `json:"seed"`
	Rate     int      `json:"rate,omitempty"`    // orders per second of a drill
	Seconds  float64  `json:"seconds,omitempty"` // duration of each attack
	Strategy string   `json:"strategy"`
	Faults   []string `json:"faults,omitempty"` // faults of the storm; none means all
	Stores   string   `json:"stores"`
	Drills   []Row    `json:"drills"` // drills, or rounds of the storm
}

// A Row is the result of one drill, or of one round of the storm.
type Row struct {
	Name         string   `json:"name"`
	Verdict      string   `json:"verdict"`        // PASS, FAIL, NOT JUDGED, or ERROR if the drill could not be carried out
	Attempts     int      `json:"attempts"`       // orders of the attack, or all calls of a storm
	Orders       int      `json:"orders"`         // durable orders, also of buyers after the attack
	Changes      int      `json:"changes"`        // reports of the feed about these orders
	LongestGapMS float64  `json:"longest_gap_ms"` // longest time without an acceptance while units were left
	Unavailable  int      `json:"unavailable"`    // number of 503s
	NoAnswer     int      `json:"no_answer"`
	Errors       float64  `json:"errors"`     // share of attempts with a 503 or without an answer
	Done         []string `json:"done"`       // steps of the faults with their times
	Violations   []string `json:"violations"` // broken promises, or why there is no verdict
	Error        string   `json:"error,omitempty"`
	Logs         string   `json:"logs,omitempty"` // directory of the logs, if they were kept

	Storm *StormFigures `json:"storm,omitempty"`

	exit int
}

// StormFigures are the figures of a round of the storm.
type StormFigures struct {
	Seed     int64   `json:"seed"` // a storm with this seed repeats the round as its first
	Seconds  float64 `json:"seconds"`
	Faults   int     `json:"faults"`
	Accepted int     `json:"accepted"` // orders, payments and cancellations
	Refused  int     `json:"refused"`
	Reads    int     `json:"reads"`   // consistent reads of the database
	Watched  float64 `json:"watched"` // share of the time in which liveness was checked
	Direct   bool    `json:"direct"`  // a sale was sold in direct mode
}

// errored is the verdict on a drill that could not be carried out.
const errored = "ERROR"

// judge fills in the load test's verdict and the figures of the buyers.
func (r *Row) judge(v *report.Report, attack time.Duration) {
	r.exit = v.ExitCode()
	r.Attempts, r.Orders, r.Changes = v.Attempts, v.Durable, v.Changes
	r.Unavailable, r.NoAnswer = v.Answers["503"], v.Answers["0"]
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

// breaks adds the violations that the drill or the storm itself found, and completes the
// verdict.
func (r *Row) breaks(broken []string) {
	if len(broken) > 0 {
		r.exit = judge.ExitViolation
		r.Violations = append(broken, r.Violations...)
	}
	r.Verdict = judge.Word(r.exit)
	if r.Attempts > 0 {
		r.Errors = report.Round(float64(r.Unavailable+r.NoAnswer)/float64(r.Attempts), 4)
	}
}

// unjudged sets the verdict on a drill that does not apply to the strategy.
func (r *Row) unjudged(why string) {
	r.exit, r.Verdict, r.Violations = judge.ExitUnjudged, judge.Word(judge.ExitUnjudged), []string{why}
}

// fail records that the drill could not be carried out. Violations found before remain in
// the row.
func (r *Row) fail(err error) {
	if r.Error = err.Error(); r.exit != judge.ExitViolation {
		r.exit, r.Verdict = judge.ExitUnjudged, errored
	}
}

// ExitCode returns the load test's exit code of the worst verdict. A drill that could not
// be carried out counts as not judged.
func (r *Report) ExitCode() int {
	code := judge.ExitPass
	for _, row := range r.Drills {
		if row.exit == judge.ExitViolation {
			return row.exit
		}
		code = max(code, row.exit)
	}
	return code
}

// summary describes what was done.
func (r *Row) summary() string {
	f := r.Storm
	if f == nil {
		return strings.Join(r.Done, ", ")
	}
	s := fmt.Sprintf("seed %d: %d faults, %d calls, %d reads, watched %.0f %% of the time", f.Seed, f.Faults, r.Attempts, f.Reads, 100*f.Watched)
	if f.Direct {
		s += ", sold in direct mode"
	}
	return s
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return report.JSON(w, r) }

// WriteText writes the report as a table, followed by the violations of each drill. For a
// failed round of the storm it also writes the steps of the faults.
func (r *Report) WriteText(w io.Writer) error {
	var t report.Text
	t.Row("drill", "verdict", "orders", "longest gap", "errors", "what was done")
	var length time.Duration
	only := ""
	if len(r.Faults) > 0 {
		only = " --faults " + strings.Join(r.Faults, ",")
	}
	for _, row := range r.Drills {
		t.Row(row.Name, row.Verdict, row.Orders, fmt.Sprintf("%.2fs", row.LongestGapMS/1000), fmt.Sprintf("%.1f %%", row.Errors*100), row.summary())
	}
	for _, row := range r.Drills {
		if f := row.Storm; f != nil {
			length += time.Duration(f.Seconds * float64(time.Second))
			if len(row.Violations) > 0 {
				t.Line("\nwhat was done:\n  %s\nwhat broke:", strings.Join(row.Done, "\n  "))
			}
		}
		for _, line := range row.Violations {
			t.Line("%s: %s", row.Name, line)
		}
		if row.Error != "" {
			t.Line("%s: could not be carried out: %s", row.Name, row.Error)
		}
		if row.Logs != "" {
			t.Line("%s: logs kept in %s", row.Name, row.Logs)
		}
		if f := row.Storm; f != nil && len(row.Violations) > 0 {
			t.Line("again: flashsale drill storm --seed %d --minutes %.2g%s", f.Seed, f.Seconds/60, only)
		}
	}
	if length > 0 {
		t.Line("\nThree nodes, three sales, %d buyers, %v of storm. %s\n"+
			"longest gap: a sale with units sold nothing, or a sold-out sale refused no buyer, although a node was healthy; more than %v is a failure. "+
			"Watched is the share of the time in which this was checked: not shortly after a fault. errors: 503 or no answer.",
			buyerCount, length, r.Stores, sellsWithin)
		return t.Write(w)
	}
	t.Line("\nThree nodes, %d orders/s for %gs each, strategy %s, seed %d. %s", r.Rate, r.Seconds, r.Strategy, r.Seed, r.Stores)
	t.Line("longest gap: without an acceptance (201), while units were left. errors: 503 or no answer.")
	return t.Write(w)
}
