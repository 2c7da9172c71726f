package drill

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// A StormReport is the result of a storm.
type StormReport struct {
	Seed   int64    `json:"seed"`             // of the first act
	Faults []string `json:"faults,omitempty"` // that were drawn from; none means all
	Stores string   `json:"stores"`
	Acts   []Act    `json:"acts"`
	Logs   string   `json:"logs,omitempty"` // directory, if they were kept
}

// An Act is what came of one act.
type Act struct {
	Seed       int64    `json:"seed"` // repeats it as the first act of a storm
	Seconds    float64  `json:"seconds"`
	Faults     int      `json:"faults"`
	Done       []string `json:"done"`   // the harm, with its times
	Broken     []string `json:"broken"` // promises, with the times at which that was seen
	Orders     int      `json:"orders"` // durable
	Calls      int      `json:"calls"`
	Yes        int      `json:"yes"` // answers: orders, payments, cancellations
	No         int      `json:"no"`
	Reads      int      `json:"reads"`       // consistent reads of the database
	LongestGap float64  `json:"longest_gap"` // longest time in seconds without a sale or a final refusal, although the sale could sell or refuse
	Watched    float64  `json:"watched"`     // share of the time in which the sales had to sell or refuse
	Direct     bool     `json:"direct"`      // a sale was sold past Redis
	Error      string   `json:"error,omitempty"`
}

// verdict of an act: PASS, FAIL, or NOT JUDGED where it could not be carried out.
func (a *Act) verdict() string {
	switch {
	case len(a.Broken) > 0:
		return judge.Word(judge.ExitViolation)
	case a.Error != "":
		return judge.Word(judge.ExitUnjudged)
	}
	return judge.Word(judge.ExitPass)
}

func (a *Act) summary() string {
	s := fmt.Sprintf("%s  seed %d: %d faults, %d calls, %d orders, %d reads, longest gap %.1fs, watched %.0f %% of the time",
		a.verdict(), a.Seed, a.Faults, a.Calls, a.Orders, a.Reads, a.LongestGap, 100*a.Watched)
	if a.Direct {
		s += ", sold past Redis"
	}
	if a.Error != "" {
		s += "; could not be carried out: " + a.Error
	}
	return s
}

func (r *StormReport) broken() bool {
	return slices.ContainsFunc(r.Acts, func(a Act) bool { return len(a.Broken) > 0 })
}

// ExitCode is as the load test's: 1 where a promise was broken, 2 where an act
// could not be judged.
func (r *StormReport) ExitCode() int {
	switch {
	case r.broken():
		return judge.ExitViolation
	case len(r.Acts) == 0 || slices.ContainsFunc(r.Acts, func(a Act) bool { return a.Error != "" }):
		return judge.ExitUnjudged
	}
	return judge.ExitPass
}

// WriteJSON writes the report as one JSON object.
func (r *StormReport) WriteJSON(w io.Writer) error { return report.JSON(w, r) }

// WriteText writes the report for people: each act in a line, and of an act that
// broke something what was done and what broke.
func (r *StormReport) WriteText(w io.Writer) error {
	var t report.Text
	var seconds float64
	var faults, calls, orders int
	only := ""
	if len(r.Faults) > 0 {
		only = " --faults " + strings.Join(r.Faults, ",")
	}
	for i := range r.Acts {
		a := &r.Acts[i]
		seconds, faults, calls, orders = seconds+a.Seconds, faults+a.Faults, calls+a.Calls, orders+a.Orders
		t.Line("%s", a.summary())
		if len(a.Broken) == 0 {
			continue
		}
		t.Line("\nwhat was done:\n  %s\nwhat broke:\n  %s\nagain: flashsale drill storm --seed %d --minutes %.2g%s --keep",
			strings.Join(a.Done, "\n  "), strings.Join(a.Broken, "\n  "), a.Seed, a.Seconds/60, only)
	}
	if r.Logs != "" {
		t.Line("logs kept in %s", r.Logs)
	}
	t.Line("\nThree nodes, three sales, %d buyers, %.0fs of storm, %d faults, %d calls, %d orders. %s\n"+
		"longest gap: a sale with units sold nothing, or one without refused nobody, though a node was healthy; more than %v is a failure. "+
		"Watched is the share of the time in which that was asked: not while a fault is new.",
		buyerCount, seconds, faults, calls, orders, r.Stores, sellsWithin)
	return t.Write(w)
}
