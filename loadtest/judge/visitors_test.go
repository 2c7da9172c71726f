package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// If visitors are allowed, an honest sale passes although the evidence contains only
// the rows of some buyers and none of their calls.
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
		e.Search = time.Nanosecond // this case needs no history
		if v := Judge(e); v.Unannounced != orders || v.VisitorOrders != 0 {
			t.Fatalf("verdict without Visitors: got %+v, want %d unannounced rows", v, orders)
		}
		e.Visitors, e.Search = true, 100*time.Millisecond
		if v := Judge(e); len(v.Violations)+len(v.Gaps) > 0 || v.VisitorOrders != orders || v.VisitorUnits != units {
			t.Fatalf("verdict with Visitors: got %+v, want %d orders and %d units of visitors", v, orders, units)
		}
	})
}

// Visitors do not hide violations.
func TestJudgeNamesViolationsAmongVisitors(t *testing.T) {
	row := func(buyer, key string, quantity int, status string) Row {
		return Row{Order{ID: "extra", SKU: "S", Buyer: buyer, Quantity: quantity, Status: status}, key, ""}
	}
	for name, tc := range map[string]struct {
		row  Row
		want string
	}{
		"a known key of an unknown buyer":               {row("guest", "g1", 1, Rejected), Unannounced},
		"an unknown key of a known buyer":               {row("gus", "theirs", 1, Rejected), Unannounced},
		"more units to visitors than on sale":           {row("guest", "theirs", 1, Paid), Oversold},
		"more units to one visitor than the limit":      {row("guest", "theirs", 3, Paid), OverLimit},
		"a visitor's row that the audit does not count": {row("guest", "theirs", 1, Pending), WrongAnswer},
	} {
		e := day().end()
		e.Visitors, e.Rows = true, append(e.Rows, tc.row)
		v := Judge(e)
		if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want }) {
			t.Errorf("sale with visitors, %s: got violations %+v, want %s", name, v.Violations, tc.want)
		}
	}
}

// Visitors may still order and cancel after the fresh buyers. Units that they cancel
// then are not stranded, and an audit that they keep changing is not judged.
func TestJudgeAllowsVisitorsAfterFreshBuyers(t *testing.T) {
	h := day()
	h.Total++
	h.place(First, "guest", "theirs", 1, true)
	e := h.end()
	e.Visitors = true
	e.Requests = slices.DeleteFunc(e.Requests, func(r Request) bool { return r.Buyer == "guest" })
	guest := find(e.Rows, func(r Row) bool { return r.Buyer == "guest" })
	guest.Status = Cancelled
	e.Audit.Available, e.Audit.Sold, e.Audit.Pending = 1, e.Audit.Sold-1, e.Audit.Pending-1
	if v := Judge(e); v.ExitCode() != ExitPass {
		t.Errorf("verdict after a visitor cancelled: got %+v, want a pass", v)
	}
	guest.Status, e.Total, e.Audit.Drift, e.Unsettled = Pending, 12, -1, "not at rest within 30s"
	v := Judge(e)
	if v.ExitCode() != ExitUnjudged || len(v.Gaps) != 1 || !strings.HasPrefix(v.Gaps[0].String(), "undersold, drift, unsettled: visitors keep") {
		t.Errorf("verdict while a visitor orders: got %+v, want one gap", v)
	}
}
