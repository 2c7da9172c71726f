package loadtest

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// The verdict names the violations that each fault causes.
func TestRunCatchesEachFault(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		want string
	}{
		"oversell":              {fault{oversell: 5}, judge.Oversold},
		"refusal takes units":   {fault{decrLeak: true}, judge.Undersold + " " + judge.Drift},
		"stock withheld":        {fault{unsold: 5}, judge.Undersold},
		"no release":            {fault{noRelease: true}, judge.Undersold},
		"no limit":              {fault{noLimit: true}, judge.OverLimit},
		"lost":                  {fault{lose: true}, judge.Lost},
		"stored and refused":    {fault{ghost: true}, judge.Unannounced},
		"duplicate":             {fault{dupe: true}, judge.Duplicates},
		"drift":                 {fault{drift: 3}, judge.Drift},
		"audit keeps changing":  {fault{unsettled: true}, judge.Unsettled},
		"plain text":            {fault{plainText: true}, judge.WrongAnswer},
		"replay without header": {fault{unflagged: true}, judge.WrongAnswer},
		"paid without effect":   {fault{unpaid: true}, judge.WrongAnswer},
		"refused replay":        {fault{refuseReplay: true}, judge.WrongAnswer},

		"oversell on payment":                 {fault{oversell: 5}, judge.Oversold},
		"refusal takes units on payment":      {fault{decrLeak: true}, judge.Drift},
		"stock withheld on payment":           {fault{unsold: 5}, judge.Undersold},
		"holds unpaid on payment":             {fault{holdsUnpaid: true}, judge.Undersold},
		"takes twice on payment":              {fault{takesTwice: true}, judge.Drift},
		"no limit on payment":                 {fault{noLimit: true}, judge.OverLimit},
		"paid without effect on payment":      {fault{unpaid: true}, judge.Lost},
		"paid and refused on payment":         {fault{ghostPaid: true}, judge.Unannounced},
		"repeated payment refused on payment": {fault{refuseRepeat: true}, judge.WrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Search = time.Millisecond // if no order of events explains the answers, the search uses all its time
			if strings.HasSuffix(name, " on payment") {
				c = c.ForPayment()
			}
			if tc.noRelease {
				c.patience.probe = time.Millisecond // the units are never released
			}
			if tc.unsettled {
				c.patience.settle = time.Millisecond
			}
			contains(t, names(mustRun(t, c, judge.ExitViolation).Verdict), strings.Fields(tc.want)...)
		})
	}
}

// An order of a visitor is a violation unless visitors are allowed. If they are, their
// units count, and an oversell to visitors is detected.
func TestRunWithVisitors(t *testing.T) {
	for name, tc := range map[string]struct {
		fault
		allowed bool
		want    string
	}{
		"visitors not allowed": {fault{visitors: 1}, false, judge.Unannounced},
		"visitors allowed":     {fault{visitors: 7}, true, ""},
		"oversold to visitors": {fault{visitors: 7, visitorsUncounted: true}, true, judge.Oversold},
		"no visitors":          {fault{}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Visitors = tc.allowed
			if tc.want != "" {
				contains(t, names(mustRun(t, c, judge.ExitViolation).Verdict), tc.want)
				return
			}
			rep := mustRun(t, c, judge.ExitPass)
			if rep.VisitorOrders != tc.visitors || rep.VisitorUnits != tc.visitors || len(rep.Notes) != min(1, tc.visitors) {
				t.Errorf("visitors: got %d orders, %d units and notes %q, want %d orders and units", rep.VisitorOrders, rep.VisitorUnits, rep.Notes, tc.visitors)
			}
		})
	}
}
