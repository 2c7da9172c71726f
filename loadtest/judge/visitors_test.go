package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Where other people may order, too, an honest sale of some of them passes: the
// judge knows their rows and nothing else of them.
func TestJudgeAcceptsVisitors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := play(t).end()
		isVisitor := func(buyer string) bool { return buyer >= "b5" && buyer <= "b9" }
		e.Requests = slices.DeleteFunc(e.Requests, func(r Request) bool { return isVisitor(r.Buyer) })
		e.Closings = slices.DeleteFunc(e.Closings, func(cl Closing) bool { return isVisitor(cl.Buyer) })
		orders, units := 0, 0
		for _, row := range e.Rows {
			if isVisitor(row.Buyer) {
				orders++
				if row.Status == Paid || row.Status == Pending && !e.OnPayment() {
					units += row.Quantity
				}
			}
		}
		e.Search = time.Nanosecond // that it was wrong is known by other checks
		if v := Judge(e); v.Unannounced != orders || v.VisitorOrders != 0 {
			t.Fatalf("%d rows of strangers where there should be none: %+v", orders, v)
		}
		e.Visitors, e.Search = true, 100*time.Millisecond
		if v := Judge(e); len(v.Violations)+len(v.Gaps) > 0 || v.VisitorOrders != orders || v.VisitorUnits != units {
			t.Fatalf("%d orders of visitors, %d units: %+v", orders, units, v)
		}
	})
}

// What is broken stays broken where visitors are allowed.
func TestJudgeNamesViolationsAmongVisitors(t *testing.T) {
	row := func(buyer, key string, quantity int, status string) Row {
		return Row{Order{ID: "extra", SKU: "S", Buyer: buyer, Quantity: quantity, Status: status}, key, ""}
	}
	for name, tc := range map[string]struct {
		row  Row
		want string
	}{
		"a key of ours under another name":   {row("guest", "g1", 1, Rejected), Unannounced},
		"a buyer of ours under another key":  {row("gus", "theirs", 1, Rejected), Unannounced},
		"more than there is, to visitors":    {row("guest", "theirs", 1, Paid), Oversold},
		"more than a visitor may have":       {row("guest", "theirs", 3, Paid), OverLimit},
		"a visitor's row that is not in sum": {row("guest", "theirs", 1, Pending), WrongAnswer},
	} {
		e := day().end()
		e.Visitors, e.Rows = true, append(e.Rows, tc.row)
		v := Judge(e)
		if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want }) {
			t.Errorf("%s: %+v, want %s", name, v.Violations, tc.want)
		}
	}
}

// Visitors go on after the fresh buyers: what they give back then is not stranded,
// and a sale that they keep in motion is not judged by an audit of one moment.
func TestJudgeAllowsVisitorsToGoOn(t *testing.T) {
	h := day()
	h.Total++
	h.ask(First, "guest", "theirs", 1, true)
	e := h.end()
	e.Visitors = true
	e.Requests = slices.DeleteFunc(e.Requests, func(r Request) bool { return r.Buyer == "guest" })
	back := the(e.Rows, func(r Row) bool { return r.Buyer == "guest" })
	back.Status = Cancelled
	e.Audit.Available, e.Audit.Sold, e.Audit.Pending = 1, e.Audit.Sold-1, e.Audit.Pending-1
	if v := Judge(e); v.ExitCode() != ExitPass {
		t.Errorf("a visitor has cancelled: %+v", v)
	}
	back.Status, e.Total, e.Audit.Drift, e.Unsettled = Pending, 12, -1, "not at rest within 30s"
	v := Judge(e)
	if v.ExitCode() != ExitUnjudged || len(v.Gaps) != 1 || !strings.HasPrefix(v.Gaps[0].String(), "undersold, drift, unsettled: other people keep") {
		t.Errorf("a visitor orders: %+v", v)
	}
}
