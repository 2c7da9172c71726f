package judge

import (
	"cmp"
	"slices"
)

// feedChecks are the checks that need a feed.
var feedChecks = []string{Untold, Backwards, Invented}

// Feed contains what a consumer has read of the feed of changes, from its beginning.
type Feed struct {
	Changes []Change // reports about orders, as they arrived; Judge ignores orders of other sales
	Unread  string   // why the feed was not read to its end; empty if it was
}

// Change is a report of the feed: the state of an order at the time of the report.
type Change struct {
	No      int64 `json:"no"`
	Order   *Row  `json:"order"`   // nil if the report is about a sale
	Session int   `json:"session"` // how often the consumer has returned to an older cursor; numbers increase within a session
}

// Untold returns the rows that the feed has never reported, or has last reported in another state.
func (f *Feed) Untold(rows []Row) (untold []Row) {
	last := map[string]Row{}
	for _, change := range f.Changes {
		last[change.Order.ID] = *change.Order
	}
	for _, row := range rows {
		if !row.same(last[row.ID].Order) {
			untold = append(untold, row)
		}
	}
	return untold
}

// same reports whether o and p are the same state of the same order.
func (o Order) same(p Order) bool {
	return o.ID == p.ID && o.SKU == p.SKU && o.Buyer == p.Buyer && o.Quantity == p.Quantity && o.Status == p.Status &&
		o.ExpiresAt.Equal(p.ExpiresAt) && o.PaidAt.Equal(p.PaidAt) && o.ClosedAt.Equal(p.ClosedAt)
}

// nextStatuses maps a status to the other statuses that an order can have later. A late
// payment reopens an expired order, and operators take paid orders back.
var nextStatuses = map[string][]string{Pending: {Paid, Cancelled, Expired}, Expired: {Paid, Cancelled}, Paid: {Cancelled}}

// feed checks the reports of the feed. Rows of visitors may have changed since they were
// read, so the checks ignore them.
func (c *Index) feed(v *Verdict) {
	if c.Feed == nil {
		v.NoFeed = true
		return
	}
	var untold, backwards, invented finding
	var before Change
	last := map[string]Row{}
	for _, change := range c.Feed.Changes {
		row := *change.Order
		if row.SKU != c.SKU {
			continue
		}
		v.Changes++
		if change.No < before.No && change.Session == before.Session {
			backwards.add("%s was reported with number %d after number %d", row.ID, change.No, before.No)
		}
		was, again := last[row.ID]
		if again && was.Status != row.Status && !slices.Contains(nextStatuses[was.Status], row.Status) {
			backwards.add("%s was reported as %s and then as %s", row.ID, was.Status, row.Status)
		}
		if _, stored := c.rows[row.ID]; !again && !stored && !c.isVisitors(row) {
			invented.add("%s of %s, %s", row.ID, row.Buyer, row.Status)
		}
		before, last[row.ID] = change, row
	}
	for _, row := range c.Feed.Untold(slices.DeleteFunc(slices.Clone(c.Rows), c.isVisitors)) {
		untold.add("%s of %s is %s and was last reported as %s", row.ID, row.Buyer, row.Status, cmp.Or(last[row.ID].Status, "nothing"))
	}
	v.Backwards = backwards.count
	v.violation(Backwards, v.Backwards, "%s of the feed that went backwards: %s.", Plural(v.Backwards, "report"), &backwards)
	switch {
	case c.Feed.Unread != "":
		v.Gaps = append(v.Gaps, Gap{feedChecks, c.Feed.Unread, "find out why the server does not answer the feed's consumer, and run again"})
	case c.Unread != "":
		v.Gaps = append(v.Gaps, Gap{[]string{Untold, Invented}, c.Unread, answerOperators})
	case c.Unsettled == "" || c.stillMoving(): // otherwise rows and reports may be from different moments
		v.Untold, v.Invented = untold.count, invented.count
		v.violation(Untold, v.Untold, "%s whose state the feed did not end with: %s.", Plural(v.Untold, "row"), &untold)
		v.violation(Invented, v.Invented, "%s in the feed without a row: %s.", Plural(v.Invented, "order"), &invented)
	}
}
