package judge

import "cmp"

// These checks compare announced orders, rows and keys with each other. The constants of
// the same names define what they count.

func (c *Index) lost(v *Verdict) {
	var f finding
	for _, o := range c.Outcomes {
		for _, id := range o.IDs {
			row, ok := c.rows[id]
			switch {
			case !ok:
				f.add("%s, announced to %s for key %s, has no row", id, o.Buyer, o.Key)
			case row.Buyer != o.Buyer || row.SKU != c.SKU || row.Quantity != o.Quantity:
				f.add("%s was announced to %s for %d of %s, its row says %s, %d of %s",
					id, o.Buyer, o.Quantity, c.SKU, cmp.Or(row.Buyer, "no buyer"), row.Quantity, row.SKU)
			case row.Status == Rejected:
				f.add("%s, announced to %s, was rejected afterwards", id, o.Buyer)
			case c.OnPayment() && row.Status != Paid && !c.payment(o, id).ConfirmedAt.IsZero():
				f.add("%s, announced to %s as paid, is %s", id, o.Buyer, row.Status)
			}
		}
	}
	v.Lost = f.count
	v.violation(Lost, v.Lost, "%s without a matching row: %s.", Plural(v.Lost, "announced order"), &f)
}

// A rejected row is a stored refusal, so it agrees with a client that was refused. A
// paid row contradicts a final refusal of its payment.
func (c *Index) unannounced(v *Verdict) {
	var f finding
	for _, row := range c.Rows {
		o := c.byIntent[Intent{row.Buyer, row.Key}]
		switch {
		case c.isVisitors(row):
		// The clients always send a key, so this case includes rows without one.
		case o == nil:
			f.add("row %s of %s, key %q: no client asked for it", row.ID, row.Buyer, row.Key)
		case c.lacks(Keys) && c.rowsOf[o.Intent][0].ID != row.ID:
			f.add("row %s of %s: its client sent key %s once, which has row %s", row.ID, row.Buyer, o.Key, c.rowsOf[o.Intent][0].ID)
		case o.refused && row.Status != Rejected:
			last := o.Requests[len(o.Requests)-1]
			f.add("row %s (%s): its client %s was refused with %d %s", row.ID, row.Status, row.Buyer, last.Status, last.Code)
		case o.Announced == nil && row.Quantity != o.Quantity:
			f.add("row %s of %s is for %d: its client asked for %d", row.ID, row.Buyer, row.Quantity, o.Quantity)
		case (c.OnPayment() || c.Changing) && row.Status == Paid && c.payment(o, row.ID).Refused:
			f.add("row %s is paid: the payment of its client %s was refused", row.ID, row.Buyer)
		}
	}
	v.Unannounced = f.count
	v.violation(Unannounced, v.Unannounced, "%s that no client was promised: %s.", Plural(v.Unannounced, "row"), &f)
	// If the outcome is unknown, a missing row may be lost and a row may be
	// unannounced.
	f = finding{}
	for _, o := range c.Outcomes {
		if !o.Known() && !c.lacks(Keys) { // without keys, the rows decide
			f.add("%s of %s", o.Key, o.Buyer)
		}
	}
	if f.count > 0 {
		v.Gaps = append(v.Gaps, Gap{[]string{Lost, Unannounced}, Plural(f.count, "order") + " whose outcome never became known: " + f.String(),
			"find out why the server does not answer, and run again"})
	}
}

func (c *Index) duplicates(v *Verdict) {
	var f finding
	report := func(a Intent, ids []string) {
		if len(ids) > 1 {
			f.add("key %s of %s has %s and %s", a.Key, a.Buyer, ids[0], ids[1])
		}
	}
	for _, o := range c.Outcomes {
		report(o.Intent, c.idsOf(o))
	}
	for _, row := range c.Rows { // keys that no client has sent
		a := Intent{row.Buyer, row.Key}
		if rows := c.rowsOf[a]; c.byIntent[a] == nil && rows[0].ID == row.ID && len(rows) > 1 {
			report(a, []string{rows[0].ID, rows[1].ID})
		}
	}
	for _, id := range c.repeated {
		f.add("row %s is listed twice", id)
	}
	v.Duplicates = f.count
	v.violation(Duplicates, v.Duplicates, "%s with two orders: %s.", Plural(v.Duplicates, "key"), &f)
}
