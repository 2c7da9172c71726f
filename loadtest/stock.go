package loadtest

import "slices"

// Verdicts about units.

// oversold: the larger of what the audit and the rows say, and of what the
// clients were promised and have not given back.
func (c *file) oversold(v *Verdict) {
	// The clients' sum stands by itself: a server whose rows and audit agree
	// with each other may still have promised more than both.
	promised := 0
	c.promises(func(o *outcome, _ string) { promised += o.quantity })
	stored := v.Pending + v.Paid
	v.Oversold = max(c.Audit.Oversold, promised-c.Total, stored-c.Total, 0)
	if v.Oversold > 0 {
		rows := "pending or paid"
		if c.onPayment() {
			rows = "paid"
		}
		v.violation(Oversold, v.Oversold, "%s beyond the %d on sale: clients hold promises of %d, rows %s %d, the audit says %d oversold.",
			plural(v.Oversold, "unit"), c.Total, promised, rows, stored, c.Audit.Oversold)
	}
}

// undersold: units nobody holds although fresh buyers wanted them.
func (c *file) undersold(v *Verdict) {
	if !c.SoldOut || c.Unread != "" {
		open := func(g Gap) bool { return slices.Contains(g.Checks, Undersold) }
		if !slices.ContainsFunc(v.Gaps, open) {
			v.Gaps = append(v.Gaps, Gap{[]string{Undersold}, "no fresh buyers were asked to buy what was left"})
		}
		return
	}
	v.Undersold = max(0, c.Total-v.Pending-v.Paid)
	if v.Undersold > 0 {
		v.violation(Undersold, v.Undersold, "%s of %d stranded: fresh buyers heard sold_out while %d were pending and %d paid; the gate has %d available.",
			plural(v.Undersold, "unit"), c.Total, v.Pending, v.Paid, c.Audit.Available)
	}
}

// overLimit: per buyer, the units above the limit, in rows or in promises
// never closed, whichever is more.
func (c *file) overLimit(v *Verdict) {
	stored, promised := map[string]int{}, map[string]int{}
	for _, row := range c.rows {
		if c.holds(row) {
			stored[row.Buyer] += row.Quantity
		}
	}
	var buyers []string // in order of first asking, so that examples are stable
	seen := map[string]bool{}
	for _, o := range c.asks {
		if !seen[o.buyer] {
			seen[o.buyer], buyers = true, append(buyers, o.buyer)
		}
	}
	for _, row := range c.Rows {
		if !seen[row.Buyer] {
			seen[row.Buyer], buyers = true, append(buyers, row.Buyer)
		}
	}
	c.promises(func(o *outcome, _ string) { promised[o.buyer] += o.quantity })
	var f finding
	for _, b := range buyers {
		if n := max(stored[b], promised[b]); n > c.PerBuyerLimit {
			f.add("%s holds %d", b, n)
			v.OverLimit += n - c.PerBuyerLimit
		}
	}
	if v.OverLimit > 0 {
		v.violation(OverLimit, v.OverLimit, "%s beyond the limit of %d, held by %s: %s.",
			plural(v.OverLimit, "unit"), c.PerBuyerLimit, plural(f.count, "buyer"), &f)
	}
}

// drift: units the audit cannot account for, by its own number or by adding
// its others up.
func (c *file) drift(v *Verdict) {
	a := c.Audit
	// Added up here as well: the number that a broken server gets wrong may be
	// the very one that should give it away.
	sum := a.Available + a.Held + a.Sold + a.Restoring
	v.Drift = a.Drift
	if v.Drift == 0 {
		v.Drift = a.Total - sum
	}
	if v.Drift != 0 {
		v.violation(Drift, v.Drift, "The audit is off by %d: total %d, but available %d + held %d + sold %d + restoring %d = %d.",
			v.Drift, a.Total, a.Available, a.Held, a.Sold, a.Restoring, sum)
	}
}
