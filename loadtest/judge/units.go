package judge

import (
	"maps"
	"slices"
)

func (c *Index) oversold(v *Verdict) {
	// The promises are counted separately. If rows and audit agree, the server may
	// still have promised more than both.
	promised := c.visitors.units
	c.promises(func(o *Outcome, _ string) { promised += o.Quantity })
	stored := v.Pending + v.Paid
	v.Oversold = max(c.Audit.Oversold, promised-c.Total, stored-c.Total, 0)
	rows := "pending or paid"
	if c.OnPayment() {
		rows = "paid"
	}
	audit := ""
	if !c.lacks(Auditing) {
		audit = Sprintf(", the audit reports %d oversold", c.Audit.Oversold)
	}
	v.violation(Oversold, v.Oversold, "%s beyond the %d on sale: clients were promised %d, rows %s hold %d%s.",
		Plural(v.Oversold, "unit"), c.Total, promised, rows, stored, audit)
}

func (c *Index) undersold(v *Verdict) {
	if !c.SoldOut || c.Unread != "" {
		open := func(g Gap) bool { return slices.Contains(g.Checks, Undersold) }
		if !slices.ContainsFunc(v.Gaps, open) {
			v.Gaps = append(v.Gaps, Gap{[]string{Undersold}, "no fresh buyers were asked to buy what was left", "let fresh buyers order until they receive sold_out"})
		}
		return
	}
	// Visitors may have closed orders after the last fresh buyer, so units that they
	// held only for a while are not counted.
	v.Undersold = max(0, c.Total-v.Pending-v.Paid-(c.visitors.wanted-c.visitors.units))
	gate := ""
	if !c.lacks(Auditing) {
		gate = Sprintf("; the gate has %d available", c.Audit.Available)
	}
	v.violation(Undersold, v.Undersold, "%s of %d stranded: fresh buyers received sold_out while %d were pending and %d paid%s.",
		Plural(v.Undersold, "unit"), c.Total, v.Pending, v.Paid, gate)
}

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
	for _, buyer := range slices.Sorted(maps.Keys(units)) { // stable examples
		if n := units[buyer]; n > c.UnitsPerBuyer {
			f.add("%s holds %d", buyer, n)
			v.OverLimit += n - c.UnitsPerBuyer
		}
	}
	v.violation(OverLimit, v.OverLimit, "%s beyond the limit of %d, held by %s: %s.",
		Plural(v.OverLimit, "unit"), c.UnitsPerBuyer, Plural(f.count, "buyer"), &f)
}

func (c *Index) drift(v *Verdict) {
	a := c.Audit
	// The sum is checked as well, because a faulty server may compute the wrong drift.
	sum := a.Available + a.Queued + a.Sold + a.Restoring
	v.Drift = a.Drift
	if v.Drift == 0 {
		v.Drift = a.Total - sum
	}
	if c.lacks(Counter) && (v.Drift == v.Oversold || v.Drift == -v.Oversold) {
		v.Drift = 0 // it only repeats Oversold, because the available units are derived from the rows
	}
	v.violation(Drift, v.Drift, "The audit is off by %d: total %d, but available %d + queued %d + sold %d + restoring %d = %d.",
		v.Drift, a.Total, a.Available, a.Queued, a.Sold, a.Restoring, sum)
}
