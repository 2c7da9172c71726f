package judge

// feedChecks are the checks that need a feed.
var feedChecks = []string{Untold, Backwards, Invented}

// Feed contains what a consumer has read of the feed of changes, from its beginning.
type Feed struct {
	Changes []Change // reports about orders of the sale, as they arrived
	Unread  string   // why the feed was not read to its end; empty if it was
}

// Change is a report of the feed: the state of an order at the time of the report.
type Change struct {
	No      int64 `json:"no"`
	Order   *Row  `json:"order"`   // nil if the report is about a sale
	Session int   `json:"session"` // number of times that the consumer had gone back to an older cursor
}

// Untold returns the rows whose state the feed has not ended with.
func (f *Feed) Untold(rows []Row) (untold []Row) {
	last := map[string]*Row{}
	for _, change := range f.Changes {
		last[change.Order.ID] = change.Order
	}
	for _, row := range rows {
		if told := last[row.ID]; told == nil || !told.same(row.Order) {
			untold = append(untold, row)
		}
	}
	return untold
}

// same reports whether a and b are the same state of the same order.
func (a *Order) same(b Order) bool {
	return a.ID == b.ID && a.SKU == b.SKU && a.Buyer == b.Buyer && a.Quantity == b.Quantity && a.Status == b.Status &&
		a.ExpiresAt.Equal(b.ExpiresAt) && a.PaidAt.Equal(b.PaidAt) && a.ClosedAt.Equal(b.ClosedAt)
}

// feed checks the reports of the feed. Rows of visitors may have changed since they were
// read, so the checks ignore them.
func (c *Index) feed(v *Verdict) {
	if c.Feed == nil {
		v.NoFeed = true
		return
	}
	var untold, backwards, invented finding
	var before Change
	last := map[string]*Row{}
	for _, change := range c.Feed.Changes {
		row := change.Order
		if change.No < before.No && change.Session == before.Session {
			backwards.add("%s was reported with number %d after number %d", row.ID, change.No, before.No)
		}
		was := last[row.ID]
		if was != nil && !follows(was.Status, row.Status) {
			backwards.add("%s was reported as %s and then as %s", row.ID, was.Status, row.Status)
		}
		if _, stored := c.rows[row.ID]; was == nil && !stored && !c.isVisitors(*row) {
			invented.add("%s of %s, %s", row.ID, row.Buyer, row.Status)
		}
		before, last[row.ID] = change, row
	}
	for _, row := range c.Feed.Untold(c.Rows) {
		told := "never reported"
		if as := last[row.ID]; as != nil && as.Status == row.Status {
			told = "last reported with other contents"
		} else if as != nil {
			told = "last reported as " + as.Status
		}
		if !c.isVisitors(row) {
			untold.add("%s of %s is %s and was %s", row.ID, row.Buyer, row.Status, told)
		}
	}
	v.Changes, v.Backwards = len(c.Feed.Changes), backwards.count
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

// follows reports whether an order can have the status after some time after the status
// before. A late payment reopens an expired order, and operators take paid orders back.
func follows(before, after string) bool {
	switch before {
	case after, Pending:
		return true
	case Expired:
		return after == Paid || after == Cancelled
	case Paid:
		return after == Cancelled
	}
	return false
}
