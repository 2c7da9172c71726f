package judge

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

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
	Name   string `json:"name"`
	Count  int    `json:"-"`
	Detail string `json:"detail"` // one sentence with numbers and examples
}

// Verdict is what Judge found.
type Verdict struct {
	Total int // units, as the evidence says
	Counts
	WrongAnswers    int
	NotLinearizable int  // 1 if no order of the clients' operations explains their answers
	Operations      int  // how many operations there are
	Undecided       bool // the search for such an order took too long, which spoils no verdict
	Violations      []Violation
	Unexercised     []Gap // checks that nothing put to the test
	Gaps            []Gap // what could not be judged
}

// Counts are a verdict's figures: units, where nothing else is said. An order
// that takes its units on payment has none before, so nothing is pending then.
type Counts struct {
	Durable     int `json:"durable"` // stored orders that were not rejected
	Pending     int `json:"pending"` // this and the next four: from the rows
	Paid        int `json:"paid"`
	Cancelled   int `json:"cancelled"`
	Expired     int `json:"expired"`
	Rejected    int `json:"rejected"`
	Available   int `json:"available"` // this and the next two: the audit's
	Queued      int `json:"queued"`
	Restoring   int `json:"restoring"`
	Oversold    int `json:"oversold"`
	Undersold   int `json:"undersold"`
	Lost        int `json:"lost"`        // orders
	Unannounced int `json:"unannounced"` // rows
	Duplicates  int `json:"duplicates"`  // keys
	OverLimit   int `json:"over_limit"`
	Drift       int `json:"drift"`

	VisitorOrders int `json:"visitor_orders"` // rows of other people, where they are allowed; this and the next are in the figures above
	VisitorUnits  int `json:"visitor_units"`  // that they hold
}

// Gap is something that was not judged.
type Gap struct {
	Checks []string `json:"checks"` // violations that there may be, or what was not put to the test
	Why    string   `json:"why"`
	Do     string   `json:"do"` // to have it judged next time
}

// Advice is the gap with what to do about it.
func (g Gap) Advice() string { return g.String() + "; to have it judged, " + g.Do }

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

// NotJudged lists all that was not judged, and why.
func (v *Verdict) NotJudged() []Gap {
	list := slices.Concat(v.Gaps, v.Unexercised)
	if v.Undecided {
		list = append(list, Gap{[]string{History}, "the search for an order of events that explains all answers took too long, and was given up",
			"leave fewer requests without an answer: a lower --rate, or a longer --timeout"})
	}
	return list
}

// Word is the verdict in capitals.
func (v *Verdict) Word() string { return Word(v.ExitCode()) }

// Word is an exit code's verdict in capitals.
func Word(exitCode int) string {
	return [...]string{ExitPass: "PASS", ExitViolation: "FAIL", ExitUnjudged: "NOT JUDGED"}[exitCode]
}

// violation adds a violation to the verdict, unless its count is 0.
func (v *Verdict) violation(name string, count int, format string, args ...any) {
	if count == 0 {
		return
	}
	v.Violations = append(v.Violations, Violation{name, count, Sprintf(format, args...)})
}

// finding counts cases of one violation and keeps the first few as examples.
type finding struct {
	count    int
	examples []string
}

const maxExamples = 3

func (f *finding) add(format string, args ...any) {
	if f.count++; len(f.examples) < maxExamples {
		f.examples = append(f.examples, Sprintf(format, args...))
	}
}

func (f *finding) String() string {
	s := strings.Join(f.examples, "; ")
	if more := f.count - len(f.examples); more > 0 {
		s += Sprintf("; and %d more", more)
	}
	return s
}

// Plural is "1 unit", "2 units".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if s, ok := strings.CutSuffix(noun, "y"); ok {
		return Sprintf("%d %sies", n, s)
	}
	return Sprintf("%d %ss", n, noun)
}

var english = message.NewPrinter(language.English)

// Sprintf is fmt.Sprintf for people: it writes a thousand as 1,000.
func Sprintf(format string, args ...any) string {
	if false {
		_ = fmt.Sprintf(format, args...) // lets go vet check the formats
	}
	return english.Sprintf(format, args...)
}
