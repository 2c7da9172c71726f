package loadtest

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// Each fault is reported as the violations that belong to it.
func TestRunCatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		want string
	}{
		"oversell":       {fault{oversell: 5}, judge.Oversold},
		"decr leak":      {fault{decrLeak: true}, judge.Undersold + " " + judge.Drift},
		"shy":            {fault{shy: 5}, judge.Undersold},
		"no restore":     {fault{noRestore: true}, judge.Undersold},
		"no limit":       {fault{noLimit: true}, judge.OverLimit},
		"lost":           {fault{lose: true}, judge.Lost},
		"ghost":          {fault{ghost: true}, judge.Unannounced},
		"duplicate":      {fault{dupe: true}, judge.Duplicates},
		"drift":          {fault{drift: 3}, judge.Drift},
		"restless":       {fault{restless: true}, judge.Unsettled},
		"plain text":     {fault{plainText: true}, judge.WrongAnswer},
		"unflagged":      {fault{unflagged: true}, judge.WrongAnswer},
		"unpaid":         {fault{unpaid: true}, judge.WrongAnswer},
		"refused replay": {fault{refuseReplay: true}, judge.WrongAnswer},

		"oversell on payment":     {fault{oversell: 5}, judge.Oversold},
		"decr leak on payment":    {fault{decrLeak: true}, judge.Drift},
		"shy on payment":          {fault{shy: 5}, judge.Undersold},
		"holds unpaid on payment": {fault{holdsUnpaid: true}, judge.Undersold},
		"takes twice on payment":  {fault{takesTwice: true}, judge.Drift},
		"no limit on payment":     {fault{noLimit: true}, judge.OverLimit},
		"unpaid on payment":       {fault{unpaid: true}, judge.Lost},
		"ghost on payment":        {fault{ghostPaid: true}, judge.Unannounced},
		"fickle on payment":       {fault{fickle: true}, judge.WrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Search = time.Millisecond // the search for an order that explains the answers uses all of its time if there is none
			if strings.HasSuffix(name, " on payment") {
				c = c.ForPayment()
			}
			if tc.noRestore {
				c.patience.probe = time.Millisecond // the units never come back
			}
			if tc.restless {
				c.patience.settle = time.Millisecond
			}
			contains(t, names(mustRun(t, c, judge.ExitViolation).Verdict), strings.Fields(tc.want)...)
		})
	}
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
				contains(t, names(mustRun(t, c, judge.ExitViolation).Verdict), tc.want)
				return
			}
			rep := mustRun(t, c, judge.ExitPass)
			if rep.VisitorOrders != tc.guests || rep.VisitorUnits != tc.guests || len(rep.Notes) != min(1, tc.guests) {
				t.Errorf("%d orders and %d units of visitors, notes %q", rep.VisitorOrders, rep.VisitorUnits, rep.Notes)
			}
		})
	}
}
