package loadtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// feedFault breaks the feed of the fake sale in one way, as other systems break theirs.
type feedFault string

const (
	lateCommit  feedFault = "every third change is visible only after later numbers were read" // a cursor over AUTO_INCREMENT
	paidOnly    feedFault = "the cursor is paid_at"
	unmarkedPay feedFault = "a payment does not mark the row as changed"
	fromMemory  feedFault = "every third change is published after a crash, and so never"
	outOfOrder  feedFault = "the state before a payment or cancellation is reported after it"
	lowerNumber feedFault = "every third number is lower than the number before"
	uncommitted feedFault = "an order is reported and then rolled back"
	failing     feedFault = "the second page is never answered"
	endless     feedFault = "no page is empty"
	missing     feedFault = "the server has no feed"
	lateExpiry  feedFault = "none, but an order expires after the rows were read"
)

// report adds the state of an order to the feed.
func (s *fakeSale) report(o *fakeOrder) {
	row, n := o.Row, len(s.log)
	add := func(row judge.Row) {
		no := int64(10 * (len(s.log) + 1))
		if s.feed == lowerNumber && n%3 == 2 {
			no -= 15
		}
		s.log = append(s.log, judge.Change{No: no, Order: &row})
	}
	switch {
	case n == 0: // changes of a sale, and of another sale
		other := row
		other.ID, other.SKU = "other", "other"
		s.log = append(s.log, judge.Change{No: 1})
		add(other)
	case s.feed == paidOnly && row.Status != judge.Paid, s.feed == unmarkedPay && row.Status == judge.Paid, s.feed == fromMemory && s.posts%3 == 0:
		return
	case s.feed == uncommitted && n == 3:
		ghost := row
		ghost.ID = "rolled-back"
		add(ghost)
	}
	add(row)
	if s.feed == outOfOrder && row.Status != judge.Pending {
		row.Status, row.ClosedAt = judge.Pending, time.Time{}
		add(row)
	}
}

// changes answers with up to 50 changes after a position in the log.
func (s *fakeSale) changes(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	if s.feed == missing || s.feed == failing && after > 0 {
		s.problem(w, map[bool]int{true: 404, false: 503}[s.feed == missing], "unavailable")
		return
	}
	if i := slices.IndexFunc(s.rows, func(o *fakeOrder) bool { return o.Status == judge.Pending }); s.feed == lateExpiry && s.lists == 1 && i >= 0 {
		o := s.rows[i]
		o.Status, o.ClosedAt = judge.Expired, o.ExpiresAt
		s.report(o)
		s.lists++
	}
	page, next := []judge.Change{}, after
	for ; next < len(s.log) && len(page) < 50; next++ {
		if s.feed != lateCommit || next%3 != 0 {
			page = append(page, s.log[next])
		}
	}
	if s.feed == endless {
		next++
		page = append(page, judge.Change{No: 1})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"changes": page, "next": fmt.Sprint(next)})
}

// The lines of the feed are judged if the server has one. Each wrong feed breaks its line.
func TestRunJudgesTheFeed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		feed  feedFault
		want  int    // exit code
		text  string // in the report
		lines string // violations
	}{
		"right":        {"", judge.ExitPass, "changes reported", ""},
		"late expiry":  {lateExpiry, judge.ExitPass, "changes reported", ""},
		"no feed":      {missing, judge.ExitPass, "not judged: untold, backwards, invented: not exercised, because", ""},
		"late commit":  {lateCommit, judge.ExitViolation, "was last reported as ", judge.Untold},
		"paid_at":      {paidOnly, judge.ExitViolation, "was last reported as nothing", judge.Untold},
		"unmarked pay": {unmarkedPay, judge.ExitViolation, "is paid and was last reported as pending_payment", judge.Untold},
		"from memory":  {fromMemory, judge.ExitViolation, "rows whose state the feed did not end with: ", judge.Untold},
		"out of order": {outOfOrder, judge.ExitViolation, " and then as pending_payment", judge.Backwards + " " + judge.Untold},
		"lower number": {lowerNumber, judge.ExitViolation, "was reported with number ", judge.Backwards},
		"uncommitted":  {uncommitted, judge.ExitViolation, "1 order in the feed without a row: rolled-back", judge.Invented},
		"failing":      {failing, judge.ExitUnjudged, "untold, backwards, invented: GET http", ""},
		"endless":      {endless, judge.ExitUnjudged, "context deadline exceeded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, fault{feed: tc.feed})
			c := quick(url)
			if tc.feed == lateExpiry {
				c = c.ForPayment() // the audit does not count unpaid orders
			}
			if tc.feed != "" {
				c.patience.feed = 500 * time.Millisecond
			}
			rep := mustRun(t, c, tc.want)
			contains(t, text(t, rep), tc.text)
			if got := names(rep.Verdict); got != tc.lines {
				t.Errorf("violations with this feed: got %q, want %q", got, tc.lines)
			}
			if got := rep.Changes > 0; got == (tc.feed == missing) {
				t.Errorf("report: got %d changes, want some if the server has a feed", rep.Changes)
			}
		})
	}
}
