package loadtest

import "slices"

// Verdicts about orders: every announced one has its row, every row its
// client, every key one order.

// lost: announced orders without a row of the same id, buyer, SKU and
// quantity. A row that was rejected after its yes is none; nor is an unpaid one,
// where "paid" is the yes.
func (c *file) lost(v *Verdict) {
	var f finding
	for _, o := range c.asks {
		for _, id := range o.ids {
			row, ok := c.rows[id]
			switch {
			case !ok:
				f.add("%s, announced to %s for key %s, has no row", id, o.buyer, o.key)
			case row.Buyer != o.buyer || row.SKU != c.SKU || row.Quantity != o.quantity:
				f.add("%s was announced to %s for %d of %s, its row says %s, %d of %s",
					id, o.buyer, o.quantity, c.SKU, row.Buyer, row.Quantity, row.SKU)
			case row.Status == Rejected:
				f.add("%s, announced to %s, was rejected afterwards", id, o.buyer)
			case c.onPayment() && row.Status != Paid && !c.payment(o, id).told.IsZero():
				f.add("%s, announced to %s as paid, is %s", id, o.buyer, row.Status)
			}
		}
	}
	if v.Lost = f.count; v.Lost > 0 {
		v.violation(Lost, v.Lost, "%s without a matching row: %s.", plural(v.Lost, "announced order"), &f)
	}
}

// unannounced: rows whose client was finally refused, or that no client asked
// for. A stored rejection is a refusal, and belongs to one. Where "paid" is the
// yes, so is a paid row whose payment was refused.
func (c *file) unannounced(v *Verdict) {
	var f finding
	for _, row := range c.Rows {
		o := c.byAsk[ask{row.Buyer, row.Key}]
		switch {
		// Our clients always send a key: a row without one is nobody's.
		case o == nil:
			f.add("row %s of %s, key %q: no client asked for it", row.ID, row.Buyer, row.Key)
		case o.refused && row.Status != Rejected:
			last := o.requests[len(o.requests)-1]
			f.add("row %s (%s): its client %s was refused with %d %s", row.ID, row.Status, row.Buyer, last.Status, last.Code)
		case c.onPayment() && row.Status == Paid && c.payment(o, row.ID).refused:
			f.add("row %s is paid: the payment of its client %s was refused", row.ID, row.Buyer)
		}
	}
	if v.Unannounced = f.count; v.Unannounced > 0 {
		v.violation(Unannounced, v.Unannounced, "%s nobody was told of: %s.", plural(v.Unannounced, "row"), &f)
	}
	// Whether these are lost or unannounced, only an answer could tell.
	f = finding{}
	for _, o := range c.asks {
		if !o.known() {
			f.add("%s of %s", o.key, o.buyer)
		}
	}
	if f.count > 0 {
		v.Gaps = append(v.Gaps, Gap{[]string{Lost, Unannounced}, plural(f.count, "order") + " whose outcome never became known: " + f.String()})
	}
}

// duplicates: keys with two ids, in answers or rows, and rows listed twice.
func (c *file) duplicates(v *Verdict) {
	var f finding
	report := func(a ask, ids []string) {
		if len(ids) > 1 {
			f.add("key %s of %s has %s and %s", a.key, a.buyer, ids[0], ids[1])
		}
	}
	for _, o := range c.asks {
		report(o.ask, c.idsOf(o))
	}
	for _, row := range c.Rows { // keys that only rows know
		a := ask{row.Buyer, row.Key}
		if rows := c.rowsOf[a]; c.byAsk[a] == nil && rows[0].ID == row.ID && len(rows) > 1 {
			report(a, []string{rows[0].ID, rows[1].ID})
		}
	}
	for _, id := range c.repeated {
		f.add("row %s is listed twice", id)
	}
	if v.Duplicates = f.count; v.Duplicates > 0 {
		v.violation(Duplicates, v.Duplicates, "%s with two orders: %s.", plural(v.Duplicates, "key"), &f)
	}
}

// idsOf is every order id known under an ask, announced or stored. The id of a
// 202 is not: when Redis loses that order, the same key makes another.
func (c *file) idsOf(o *outcome) []string {
	ids := slices.Clone(o.ids)
	for _, row := range c.rowsOf[o.ask] {
		if !slices.Contains(ids, row.ID) {
			ids = append(ids, row.ID)
		}
	}
	return ids
}
