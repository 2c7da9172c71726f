package loadtest

import (
	"fmt"
	"strings"
	"time"
)

// Evidence is all that a verdict rests on: what the clients were told, and
// what the server says it has. Judge does no more than read it.
type Evidence struct {
	SKU           string
	Total         int // units put on sale
	PerBuyerLimit int
	ReserveOn     string        // OnOrder or OnPayment; empty: OnOrder
	Search        time.Duration // for an order of the history, at most; 0: 2 s

	Requests []Request
	Closings []Closing
	Audit    Audit
	Rows     []Row

	SoldOut   bool   // fresh buyers ordered until sold_out, at the end
	Unsettled string // how the audit kept moving; empty: it was at rest
	Unread    string // why Audit and Rows are missing; empty: they are not
	Gaps      []Gap  // what the run could not find out
}

// Names of violations.
const (
	Oversold    = "oversold"     // units promised or stored beyond the total
	Undersold   = "undersold"    // units that fresh buyers could not get
	Lost        = "lost"         // announced orders without a matching row
	Unannounced = "unannounced"  // rows that their client was refused, or nobody asked for
	Duplicates  = "duplicates"   // keys with two orders
	OverLimit   = "over_limit"   // units beyond the buyers' limit
	Drift       = "drift"        // units the audit cannot account for
	Unsettled   = "unsettled"    // the audit did not come to rest
	WrongAnswer = "wrong_answer" // answers outside of the contract, or not kept
	History     = "history"      // answers that no order of events explains
)

// Violation is one promise that was broken. Count is in the unit of its name.
type Violation struct {
	Name   string
	Count  int
	Detail string // one sentence with numbers and examples
}

// Verdict is what Judge found. Pending to Rejected are units, like the audit's
// own (so nothing is pending where an unpaid order has none); Durable and the violations named after orders, rows, keys and answers
// count those.
type Verdict struct {
	Total, Available, Held, Restoring           int // the audit's
	Durable                                     int // stored orders that were not rejected
	Pending, Paid, Cancelled, Expired, Rejected int // units, from the rows
	Oversold, Undersold, OverLimit, Drift       int // units
	Lost, Unannounced, Duplicates, WrongAnswers int
	Inexplicable                                int  // 1 if no order of the clients' operations explains their answers
	Operations                                  int  // so many they are
	Undecided                                   bool // whether one does was not found out in time
	Violations                                  []Violation
	Unexercised                                 []string // checks that nothing put to the test
	Gaps                                        []Gap    // what could not be judged
}

// Gap is what a verdict leaves open.
type Gap struct {
	Checks []string // names of violations that may be there all the same
	Why    string
}

func (g Gap) String() string { return strings.Join(g.Checks, ", ") + ": " + g.Why }

// Exit codes, for a program to end with.
const (
	ExitPass      = 0
	ExitViolation = 1
	ExitUnjudged  = 2 // could not judge, or a check was never exercised
)

// ExitCode is the verdict as a number. A violation outweighs what could not be
// judged.
func (v *Verdict) ExitCode() int {
	switch {
	case len(v.Violations) > 0:
		return ExitViolation
	case len(v.Gaps)+len(v.Unexercised) > 0:
		return ExitUnjudged
	}
	return ExitPass
}

// Word is the verdict in capitals.
func (v *Verdict) Word() string {
	return [...]string{ExitPass: "PASS", ExitViolation: "FAIL", ExitUnjudged: "NOT JUDGED"}[v.ExitCode()]
}

// violation adds one to the verdict.
func (v *Verdict) violation(name string, count int, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{name, count, fmt.Sprintf(format, args...)})
}

// finding collects cases of one violation and remembers the first few.
type finding struct {
	count    int
	examples []string
}

const maxExamples = 3

func (f *finding) add(format string, args ...any) {
	if f.count++; len(f.examples) < maxExamples {
		f.examples = append(f.examples, fmt.Sprintf(format, args...))
	}
}

func (f *finding) String() string {
	s := strings.Join(f.examples, "; ")
	if more := f.count - len(f.examples); more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

// plural is "1 unit", "2 units".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if s, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, s)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
