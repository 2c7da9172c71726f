package loadtest

import (
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// A breach is a fault, and the violation that it must be found as.
type breach struct {
	fault
	want string
}

func catches(t *testing.T, onPayment bool, breaches map[string]breach) {
	for name, tc := range breaches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Search = 100 * time.Millisecond // to prove that no order explains the answers can take its whole time
			if onPayment {
				c = c.ForPayment()
			}
			if tc.noRestore {
				c.patience.probe = 500 * time.Millisecond // waited for in vain
			}
			if tc.restless {
				c.patience.settle = 500 * time.Millisecond
			}
			says(t, names(mustRun(t, c, judge.ExitViolation).Verdict), tc.want)
		})
	}
}

func TestRunCatchesOnPayment(t *testing.T) {
	t.Parallel()
	catches(t, true, map[string]breach{
		"oversell":     {fault{oversell: 5}, judge.Oversold},
		"decr leak":    {fault{decrLeak: true}, judge.Drift},
		"shy":          {fault{shy: 5}, judge.Undersold},
		"holds unpaid": {fault{holdsUnpaid: true}, judge.Undersold},
		"takes twice":  {fault{takesTwice: true}, judge.Drift},
		"no limit":     {fault{noLimit: true}, judge.OverLimit},
		"unpaid":       {fault{unpaid: true}, judge.Lost},
		"ghost":        {fault{ghostPaid: true}, judge.Unannounced},
		"fickle":       {fault{fickle: true}, judge.WrongAnswer},
	})
}

// The orders of other people are violations, unless they were allowed. Then their
// units count, and a sale that gives them too many is caught.
func TestRunWithVisitors(t *testing.T) {
	for name, tc := range map[string]struct {
		fault
		visitors bool
		want     string
	}{
		"a stranger's row":        {fault{guests: 1}, false, judge.Unannounced},
		"visitors":                {fault{guests: 7}, true, ""},
		"oversold to visitors":    {fault{guests: 7, guestsUnseen: true}, true, judge.Oversold},
		"visitors who stayed out": {fault{}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Visitors = tc.visitors
			if tc.want != "" {
				says(t, names(mustRun(t, c, judge.ExitViolation).Verdict), tc.want)
				return
			}
			rep := mustRun(t, c, judge.ExitPass)
			if rep.VisitorOrders != tc.guests || rep.VisitorUnits != tc.guests || len(rep.Notes) != min(1, tc.guests) {
				t.Errorf("%d orders and %d units of visitors, notes %q", rep.VisitorOrders, rep.VisitorUnits, rep.Notes)
			}
		})
	}
}

func TestRunCatches(t *testing.T) {
	t.Parallel()
	catches(t, false, map[string]breach{
		"oversell":        {fault{oversell: 5}, judge.Oversold},
		"decr leak":       {fault{decrLeak: true}, judge.Undersold},
		"decr leak drift": {fault{decrLeak: true}, judge.Drift},
		"shy":             {fault{shy: 5}, judge.Undersold},
		"no restore":      {fault{noRestore: true}, judge.Undersold},
		"no limit":        {fault{noLimit: true}, judge.OverLimit},
		"lost":            {fault{lose: true}, judge.Lost},
		"ghost":           {fault{ghost: true}, judge.Unannounced},
		"duplicate":       {fault{dupe: true}, judge.Duplicates},
		"drift":           {fault{drift: 3}, judge.Drift},
		"restless":        {fault{restless: true}, judge.Unsettled},
		"plain text":      {fault{plainText: true}, judge.WrongAnswer},
		"unflagged":       {fault{unflagged: true}, judge.WrongAnswer},
		"unpaid":          {fault{unpaid: true}, judge.WrongAnswer},
		"refused replay":  {fault{refuseReplay: true}, judge.WrongAnswer},
	})
}
