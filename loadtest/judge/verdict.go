package judge

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// The names of violations, one for each promise that Judge checks. The definitions use
// these terms:
//
//   - An order is announced if an answer promises that it is stored (see
//     Request.Announces).
//   - An announced order is promised until its client cancels it or it expires at the
//     announced time. If the sale takes units on payment, an order is promised once its
//     payment is confirmed.
//   - A row holds units if it is paid, or if it is pending and the sale takes units on
//     order.
const (
	// Oversold counts units beyond Evidence.Total. Judge takes the largest excess of
	// three counts: the units of promised orders, the units that rows hold, and the
	// audit's own figure.
	Oversold = "oversold"
	// Undersold counts units that no row holds although the server answered sold_out to
	// fresh buyers at the end. It requires Evidence.SoldOut.
	Undersold = "undersold"
	// Lost counts announced orders without a row of the same id, buyer, SKU and
	// quantity, or with a rejected row. An order with a confirmed payment and an unpaid
	// row is lost as well if the sale takes units on payment.
	Lost = "lost"
	// Unannounced counts rows that contradict a final refusal, rows whose key no client
	// has sent, and rows of an unannounced order with a wrong quantity.
	Unannounced = "unannounced"
	// Duplicates counts keys of a buyer with more than one order id, in answers or
	// rows, and rows that are listed twice.
	Duplicates = "duplicates"
	// OverLimit counts units beyond UnitsPerBuyer, summed over all buyers. A buyer's
	// units are the larger of two counts: the units of the buyer's promised orders, and
	// the units that the buyer's rows hold.
	OverLimit = "over_limit"
	// Drift is the audit's own drift or, if that is 0, Total − (Available + Queued +
	// Sold + Restoring). A negative count means that units are counted twice.
	Drift = "drift"
	// Unsettled is 1 if the audit kept changing until the run gave up.
	Unsettled = "unsettled"
	// WrongAnswer counts answers that break the contract, contradict an earlier answer,
	// or contradict the rows. It also counts rows that were closed or paid without a
	// call, and an audit that contradicts the rows or itself.
	WrongAnswer = "wrong_answer"
	// History is 1 if no order of events explains all answers: some buyer was refused
	// units that were free, or was promised units that were not.
	History = "history"
	// Untold counts rows whose state the feed of changes did not end with: the feed never
	// reported the order, or its last report differs from the row.
	Untold = "untold"
	// Backwards counts reports of the feed with a state that an order cannot have after the
	// state reported before, and reports whose number is lower than the number before.
	Backwards = "backwards"
	// Invented counts orders that the feed reported and that have no row.
	Invented = "invented"
)

// Violation is a broken promise. Count is in the unit that the constant of its Name
// states.
type Violation struct {
	Name   string `json:"name"`
	Count  int    `json:"-"`
	Detail string `json:"detail"` // one sentence with numbers and examples
}

// Verdict is the result of Judge.
type Verdict struct {
	Total int // units put on sale
	Counts
	WrongAnswers    int
	NotLinearizable int  // count of History: 0 or 1
	Operations      int  // number of operations that the History check examined
	Undecided       bool // the History check ran out of time; the verdict may still be PASS
	Violations      []Violation
	NoFeed          bool     // the server has no feed of changes, which does not prevent a PASS
	Unexercised     []Gap    // checks that no event of the run has put to the test
	Gaps            []Gap    // checks that could not be made
	Inapplicable    []string // checks that do not apply, because the shop lacks what they are about
}

// Counts are the figures of a verdict, in units unless a comment names another unit.
// Pending is 0 if the sale takes units on payment, because a pending order
// then holds no units.
type Counts struct {
	Durable     int // rows that are not rejected
	Pending     int // sum over the rows, as for Paid, Cancelled, Expired and Rejected
	Paid        int
	Cancelled   int
	Expired     int
	Rejected    int
	Available   int // from the audit, as for Queued and Restoring
	Queued      int
	Restoring   int
	Oversold    int
	Undersold   int
	Lost        int // orders
	Unannounced int // rows
	Duplicates  int // keys
	OverLimit   int
	Drift       int
	Changes     int // reports of the feed about orders of the sale
	Untold      int // rows
	Backwards   int // reports
	Invented    int // orders

	VisitorOrders int // rows of buyers outside the load test; the counts above include them
	VisitorUnits  int // units that these rows hold
}

// Gap is something that Judge could not check.
type Gap struct {
	Checks []string `json:"checks"` // names of the violations or events that were not checked
	Why    string   `json:"why"`
	Do     string   `json:"do"` // advice for the next run
}

// Advice returns the gap and what to do about it.
func (g Gap) Advice() string { return g.String() + "; to have it judged, " + g.Do }

func (g Gap) String() string { return strings.Join(g.Checks, ", ") + ": " + g.Why }

// Exit codes of a program that judges a sale.
const (
	ExitPass      = 0
	ExitViolation = 1
	ExitUnjudged  = 2 // there are gaps, or checks that no event has put to the test
)

// ExitCode returns the exit code of the verdict. A violation takes precedence over a
// gap.
func (v *Verdict) ExitCode() int {
	switch {
	case len(v.Violations) > 0:
		return ExitViolation
	case len(v.Gaps)+len(v.Unexercised) > 0:
		return ExitUnjudged
	}
	return ExitPass
}

// NotJudged returns everything that was not judged. An undecided History and a missing
// feed are in this list although they do not change the exit code.
func (v *Verdict) NotJudged() []Gap {
	list := slices.Concat(v.Gaps, v.Unexercised)
	if v.Undecided {
		do := "leave fewer requests without an answer: a lower --rate, or a longer --timeout"
		if v.Oversold > 0 {
			do = "mend the oversell first, because an oversold sale has no such order"
		}
		list = append(list, Gap{[]string{History}, "the search for an order of events that explains all answers took too long, and was given up", do})
	}
	if v.NoFeed && !slices.Contains(v.Inapplicable, Untold) {
		list = append(list, Gap{feedChecks, "not exercised, because the server has no feed of changes", "start the server with --changes"})
	}
	return list
}

// leaveOutInapplicable removes the checks that do not apply from the gaps.
func (v *Verdict) leaveOutInapplicable() {
	var gaps []Gap
	for _, g := range v.Gaps {
		g.Checks = slices.DeleteFunc(slices.Clone(g.Checks), func(check string) bool { return slices.Contains(v.Inapplicable, check) })
		if len(g.Checks) > 0 {
			gaps = append(gaps, g)
		}
	}
	v.Gaps = gaps
}

// Word returns PASS, FAIL or NOT JUDGED.
func (v *Verdict) Word() string { return Word(v.ExitCode()) }

// Word returns the word for an exit code.
func Word(exitCode int) string {
	return [...]string{ExitPass: "PASS", ExitViolation: "FAIL", ExitUnjudged: "NOT JUDGED"}[exitCode]
}

// violation adds a violation to the verdict unless count is 0.
func (v *Verdict) violation(name string, count int, format string, args ...any) {
	if count == 0 {
		return
	}
	v.Violations = append(v.Violations, Violation{name, count, Sprintf(format, args...)})
}

// finding counts the cases of one violation and keeps the first few as examples.
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

// Plural returns a count with its noun, such as "1 unit" or "2 units".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if s, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(s, "e") {
		return Sprintf("%d %sies", n, s)
	}
	return Sprintf("%d %ss", n, noun)
}

var english = message.NewPrinter(language.English)

// Sprintf formats like fmt.Sprintf, with separators in large numbers: 1,000.
func Sprintf(format string, args ...any) string {
	if false {
		_ = fmt.Sprintf(format, args...) // never runs, but makes go vet check the formats
	}
	return english.Sprintf(format, args...)
}
