package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each case changes what the feed of an honest sale reported, and names the violations.
func TestJudgeFeed(t *testing.T) {
	// again lets the feed report an order once more, with another status.
	again := func(status string) func(*Evidence) {
		return func(e *Evidence) {
			e.Rows[0].Status = status
			row := e.Rows[0]
			e.Feed.Changes = append(e.Feed.Changes, Change{No: 100, Order: &row})
		}
	}
	then := func(first, second string) func(*Evidence) {
		return func(e *Evidence) {
			e.Feed.Changes = e.Feed.Changes[1:] // the order's own report
			again(first)(e)
			again(second)(e)
		}
	}
	lastChange := func(e *Evidence) *Change { return &e.Feed.Changes[len(e.Feed.Changes)-1] }
	edit := func(change func(*Row)) func(*Evidence) {
		return func(e *Evidence) {
			row := *lastChange(e).Order
			change(&row)
			lastChange(e).Order = &row
		}
	}
	for name, tc := range map[string]struct {
		change func(*Evidence)
		want   []string
	}{
		"honest":            {func(*Evidence) {}, nil},
		"an order skipped":  {func(e *Evidence) { e.Feed.Changes = e.Feed.Changes[1:] }, []string{Untold}},
		"nothing reported":  {func(e *Evidence) { e.Feed.Changes = nil }, []string{Untold}},
		"another status":    {edit(func(r *Row) { r.Status = Paid }), []string{Untold}},
		"another paid_at":   {edit(func(r *Row) { r.PaidAt = r.ExpiresAt }), []string{Untold}},
		"another closed_at": {edit(func(r *Row) { r.ClosedAt = r.ExpiresAt }), []string{Untold}},
		"another zone":      {edit(func(r *Row) { r.ExpiresAt = r.ExpiresAt.In(time.FixedZone("", 3600)) }), nil},
		"another sale": {func(e *Evidence) {
			e.Feed.Changes = append(e.Feed.Changes, Change{Order: &Row{Order: Order{ID: "x", SKU: "other"}}})
		}, nil},
		"an unknown order":             {edit(func(r *Row) { r.ID = "ghost" }), []string{Untold, Invented}},
		"the same again":               {again(Pending), nil},
		"lower number":                 {func(e *Evidence) { lastChange(e).No = 0 }, []string{Backwards}},
		"the same number":              {func(e *Evidence) { lastChange(e).No-- }, nil},
		"lower number after a restart": {func(e *Evidence) { lastChange(e).No, lastChange(e).Session = 0, 1 }, nil},

		"pending, paid":      {then(Pending, Paid), nil},
		"pending, cancelled": {then(Pending, Cancelled), nil},
		"pending, expired":   {then(Pending, Expired), nil},
		"late payment":       {then(Expired, Paid), nil},
		"void":               {then(Paid, Cancelled), nil},
		"late, then void":    {then(Expired, Cancelled), nil},
		"paid, pending":      {then(Paid, Pending), []string{Backwards}},
		"paid, expired":      {then(Paid, Expired), []string{Backwards}},
		"cancelled, paid":    {then(Cancelled, Paid), []string{Backwards}},
		"cancelled, pending": {then(Cancelled, Pending), []string{Backwards}},
		"expired, pending":   {then(Expired, Pending), []string{Backwards}},
		"rejected, pending":  {then(Rejected, Pending), []string{Backwards}},
	} {
		t.Run(name, func(t *testing.T) {
			e := day().end()
			tc.change(&e)
			var got []string
			for _, v := range Judge(e).Violations {
				if slices.Contains(feedChecks, v.Name) {
					got = append(got, v.Name)
				}
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("violations of the feed: got %v, want %v", got, tc.want)
			}
		})
	}
}

// A feed that was not read to its end is a gap. A missing feed is none.
func TestJudgeFeedGaps(t *testing.T) {
	e := day().end()
	e.Feed = &Feed{Changes: e.Feed.Changes[1:], Unread: "connection refused"}
	if v := Judge(e); v.ExitCode() != ExitUnjudged || !strings.Contains(v.Gaps[0].String(), "untold, backwards, invented: connection refused") {
		t.Errorf("feed that was not read: got exit code %d with gaps %v, want %d with a gap", v.ExitCode(), v.Gaps, ExitUnjudged)
	}
	e.Feed = nil
	if v := Judge(e); v.ExitCode() != ExitPass || len(v.NotJudged()) != 1 {
		t.Errorf("no feed: got exit code %d, not judged %v, want a pass and the lines of the feed", v.ExitCode(), v.NotJudged())
	}
}

// Orders of visitors may change between the feed and the rows.
func TestJudgeFeedIgnoresVisitors(t *testing.T) {
	e := day().end()
	e.Visitors = true
	guest := Row{Order{ID: "v", SKU: "S", Buyer: "guest", Quantity: 1, Status: Cancelled}, "theirs", ""}
	late := guest
	late.ID = "later"
	e.Rows, e.Feed.Changes = append(e.Rows, guest), append(e.Feed.Changes, Change{No: 100, Order: &late})
	if v := Judge(e); len(v.Violations) > 0 {
		t.Errorf("feed with orders of visitors: got %+v, want no violation", v.Violations)
	}
}

// One report that is left out, if it was the last of its order, is one row untold.
func TestJudgeCountsEachSkippedChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := play(t).end()
		e.Search = time.Millisecond
		i := rapid.IntRange(0, len(e.Feed.Changes)-1).Draw(t, "change")
		skipped := e.Feed.Changes[i].Order
		want := 0
		e.Feed.Changes = slices.Delete(e.Feed.Changes, i, i+1)
		if !slices.ContainsFunc(e.Feed.Changes[i:], func(c Change) bool { return c.Order.ID == skipped.ID }) {
			want = 1
		}
		if v := Judge(e); v.Untold != want || v.Backwards+v.Invented > 0 {
			t.Fatalf("feed without change %d: got untold %d, backwards %d, invented %d, want untold %d alone", i, v.Untold, v.Backwards, v.Invented, want)
		}
	})
}
