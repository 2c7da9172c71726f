package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"flashsale/loadtest"
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
	Done         []string `json:"done"`       // the harm, with its times in the attack
	Violations   []string `json:"violations"` // or why there is no verdict
	Error        string   `json:"error,omitempty"`
	Logs         string   `json:"logs,omitempty"` // directory; if they were kept

	exit int
}

// errored is the verdict on a drill that could not be carried out.
const errored = "ERROR"

// judge fills in what the load test and the buyers have to say.
func (r *Row) judge(v *loadtest.Report, seen seen, attack time.Duration) {
	r.exit, r.Verdict = v.ExitCode(), v.Word()
	r.Attempts, r.Orders = v.Attempts, v.Durable
	r.Unavailable, r.NoAnswer = v.Answers["503"], v.Answers["0"]
	if v.Attempts > 0 {
		r.Errors = math.Round(float64(r.Unavailable+r.NoAnswer)/float64(v.Attempts)*1e4) / 1e4
	}
	r.LongestGapMS = math.Round(float64(seen.longestGap(attack))/float64(time.Millisecond)*10) / 10
	for _, x := range v.Violations {
		r.Violations = append(r.Violations, x.Name+": "+x.Detail)
	}
	for _, x := range v.Gaps {
		r.Violations = append(r.Violations, "could not judge "+x.String())
	}
	for _, x := range v.Unexercised {
		r.Violations = append(r.Violations, "never exercised: "+x)
	}
}

// breaks adds what the drill itself saw.
func (r *Row) breaks(broken []string) {
	if len(broken) > 0 {
		r.exit, r.Verdict = loadtest.ExitViolation, "FAIL"
		r.Violations = append(broken, r.Violations...)
	}
}

func (r *Row) fail(err error) {
	r.Verdict, r.Error = errored, err.Error()
}

// ExitCode is the worst of the verdicts, as the load test's. A drill that could
// not be carried out is one that could not be judged.
func (r *Report) ExitCode() int {
	code := loadtest.ExitPass
	for _, row := range r.Drills {
		switch {
		case row.exit == loadtest.ExitViolation:
			return loadtest.ExitViolation
		case row.exit != loadtest.ExitPass || row.Verdict == errored:
			code = loadtest.ExitUnjudged
		}
	}
	return code
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "drill\tverdict\torders\tlongest gap\terrors\twhat was done\n")
	for _, row := range r.Drills {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.2fs\t%.1f %%\t%s\n", row.Name, row.Verdict, row.Orders, row.LongestGapMS/1000, row.Errors*100, strings.Join(row.Done, ", "))
	}
	_ = t.Flush() // into memory
	for _, row := range r.Drills {
		for _, line := range row.Violations {
			fmt.Fprintf(&out, "\n%s: %s", row.Name, line)
		}
		if row.Error != "" {
			fmt.Fprintf(&out, "\n%s: could not be carried out: %s", row.Name, row.Error)
		}
		if row.Logs != "" {
			fmt.Fprintf(&out, "\n%s: logs kept in %s", row.Name, row.Logs)
		}
	}
	fmt.Fprintf(&out, "\nThree nodes, %d orders/s for %gs each, strategy %s, seed %d. %s\n"+
		"longest gap: without a yes (201), while there was something to sell. errors: 503 or no answer.\n",
		r.Rate, r.Seconds, r.Strategy, r.Seed, r.Stores)
	_, err := io.WriteString(w, out.String())
	return err
}
