package judge

import (
	"maps"
	"slices"
)

// oversold counts units beyond the total: by the audit, by the rows, or by what
// clients were promised and have not given back, whichever is most.
func (c *Index) oversold(v *Verdict) {
	// The clients' sum counts by itself: rows and audit may agree with each
	// other while the server has promised more than both.
	promised := c.visitors.units
	c.promises(func(o *Outcome, _ string) { promised += o.Quantity })
	stored := v.Pending + v.Paid
	v.Oversold = max(c.Audit.Oversold, promised-c.Total, stored-c.Total, 0)
	rows := "pending or paid"
	if c.OnPayment() {
		rows = "paid"
	}
	v.violation(Oversold, v.Oversold, "%s beyond the %d on sale: clients hold promises of %d, rows %s %d, the audit says %d oversold.",
		Plural(v.Oversold, "unit"), c.Total, promised, rows, stored, c.Audit.Oversold)
}

// undersold counts units that nobody holds although fresh buyers wanted them.
func (c *Index) undersold(v *Verdict) {
	if !c.SoldOut || c.Unread != "" {
		open := func(g Gap) bool { return slices.Contains(g.Checks, Undersold) }
		if !slices.ContainsFunc(v.Gaps, open) {
			v.Gaps = append(v.Gaps, Gap{[]string{Undersold}, "no fresh buyers were asked to buy what was left", "let fresh buyers order until they hear sold_out"})
		}
		return
	}
	// What visitors gave back may have come after the fresh buyers.
	v.Undersold = max(0, c.Total-v.Pending-v.Paid-(c.visitors.wanted-c.visitors.units))
	v.violation(Undersold, v.Undersold, "%s of %d stranded: fresh buyers heard sold_out while %d were pending and %d paid; the gate has %d available.",
		Plural(v.Undersold, "unit"), c.Total, v.Pending, v.Paid, c.Audit.Available)
}

// overLimit counts, per buyer, the units above the limit: in rows, or in
// promises that were never closed, whichever is more.
func (c *Index) overLimit(v *Verdict) {
	units, promised := map[string]int{}, map[string]int{}
	for _, row := range c.rows {
		if c.holds(row) {
			units[row.Buyer] += row.Quantity
		}
	}
	c.promises(func(o *Outcome, _ string) { promised[o.Buyer] += o.Quantity })
	for buyer, n := range promised {
		units[buyer] = max(units[buyer], n)
	}
	var f finding
	for _, buyer := range slices.Sorted(maps.Keys(units)) { // so that examples are stable
		if n := units[buyer]; n > c.PerBuyerLimit {
			f.add("%s holds %d", buyer, n)
			v.OverLimit += n - c.PerBuyerLimit
		}
	}
	v.violation(OverLimit, v.OverLimit, "%s beyond the limit of %d, held by %s: %s.",
		Plural(v.OverLimit, "unit"), c.PerBuyerLimit, Plural(f.count, "buyer"), &f)
}

// drift counts units that the audit cannot account for: by its own number, or
// else by the sum of its parts.
func (c *Index) drift(v *Verdict) {
	a := c.Audit
	// The sum is checked here as well: a broken server may get the very number
	// wrong that should show the fault.
	sum := a.Available + a.Queued + a.Sold + a.Restoring
	v.Drift = a.Drift
	if v.Drift == 0 {
		v.Drift = a.Total - sum
	}
	v.violation(Drift, v.Drift, "The audit is off by %d: total %d, but available %d + queued %d + sold %d + restoring %d = %d.",
		v.Drift, a.Total, a.Available, a.Queued, a.Sold, a.Restoring, sum)
}
