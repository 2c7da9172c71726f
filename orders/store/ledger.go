package store

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// A ledger is read under the sale's row lock. Its size must not grow with the orders that one
// buyer has made before: with 100,000 old orders of one buyer in each batch, commits took 260
// times as long.

// usualOrders is how many orders the buyers of a batch usually have, on average,
// and a few more. Only where they have more it costs queries of its own.
const usualOrders, fewMore = 2, 16

// ReadLedgers reads what is known of the batches' buyers, each of the SKU that
// the buyer is asking for: their orders, and so their units and their keys. Of
// buyers who have as many orders as they may have it reads only those orders that
// the batch itself names.
func (s *Store) ReadLedgers(tx *gorm.DB, batches []SaleBatch) ([]*orders.Ledger, error) {
	var buyers []saleBuyer
	created := map[string]time.Time{} // of the sales: an archived one's SKU may be another sale's now
	for _, sh := range batches {
		created[sh.Sale.SKU] = sh.Sale.CreatedAt
		for _, q := range sh.Orders {
			buyers = append(buyers, saleBuyer{sh.Sale.SKU, q.Buyer})
		}
	}
	slices.SortFunc(buyers, saleBuyer.compare)
	buyers = slices.Compact(buyers)
	full := map[saleBuyer]bool{}
	rest := slices.DeleteFunc(buyers, func(b saleBuyer) bool {
		if since, known := s.full.Get(b); known && since.Equal(created[b.sku]) {
			full[b] = true
		}
		return full[b]
	})
	rows, err := s.readBuyers(tx, rest, full)
	if err != nil {
		return nil, fmt.Errorf("read the orders of a batch's buyers: %w", err)
	}
	bySKU := map[string][]orders.Order{}
	for _, o := range rows {
		bySKU[o.SKU] = append(bySKU[o.SKU], o)
	}
	for b := range full {
		s.full.Add(b, created[b.sku])
	}
	ledgers := make([]*orders.Ledger, len(batches))
	for i, sh := range batches {
		l := orders.NewLedger(&sh.Sale.Sale, sh.Sale.Now, bySKU[sh.Sale.SKU])
		l.OrdersPerBuyer = s.ordersPerBuyer
		if len(full) > 0 {
			err = s.readFull(tx, l, full, sh)
		}
		if err == nil {
			err = readLate(tx, l, sh.Orders)
		}
		if err != nil {
			return nil, err
		}
		ledgers[i] = l
	}
	return ledgers, nil
}

// readBuyers reads all orders of these buyers, who are in order, but for those
// buyers who are full: who have as many orders as they may have. It adds them to
// full.
func (s *Store) readBuyers(tx *gorm.DB, buyers []saleBuyer, full map[saleBuyer]bool) (rows []orders.Order, err error) {
	for len(buyers) > 0 {
		args := make([]any, 0, 2*len(buyers)+1)
		for _, b := range buyers {
			args = append(args, b.sku, b.buyer)
		}
		limit := usualOrders*len(buyers) + fewMore
		page, err := readForLedger(tx, s.ordersByKey(),
			s.in("sku, buyer", 2, len(buyers))+" ORDER BY sku, buyer, idempotency_key LIMIT ?", append(args, limit))
		if err != nil {
			return nil, err
		}
		if len(page) < limit {
			return append(rows, page...), nil
		}
		// One buyer or more have unusually many orders. All is read of those before
		// the last one of the page.
		last := saleBuyer{page[limit-1].SKU, page[limit-1].Buyer}
		first := slices.IndexFunc(page, func(o orders.Order) bool { return saleBuyer{o.SKU, o.Buyer} == last })
		rows = append(rows, page[:first]...)
		isFull, err := s.isFull(tx, last)
		if err != nil {
			return nil, err
		}
		if isFull {
			full[last] = true
		} else {
			all, err := readForLedger(tx, s.ordersByKey(), "sku = ? AND buyer = ?", []any{last.sku, last.buyer})
			if err != nil {
				return nil, err
			}
			rows = append(rows, all...)
		}
		next, _ := slices.BinarySearchFunc(buyers, last, saleBuyer.compare)
		buyers = buyers[next+1:]
	}
	return rows, nil
}

// isFull tells whether a buyer has as many orders as one may have. The database
// reads at most that many entries of an index, and no rows.
func (s *Store) isFull(tx *gorm.DB, b saleBuyer) (bool, error) {
	var there []string
	err := tx.Table(s.ordersByKey()).Where("sku = ? AND buyer = ?", b.sku, b.buyer).
		Limit(1).Offset(int(s.ordersPerBuyer-1)).Pluck("sku", &there).Error
	return len(there) > 0, err
}

// readFull adds the orders that a batch names of buyers who are full, and for a
// late payment the units that its buyer holds.
func (s *Store) readFull(tx *gorm.DB, l *orders.Ledger, full map[saleBuyer]bool, sh SaleBatch) error {
	var ids, keys []any
	for _, q := range sh.Orders {
		if !full[saleBuyer{l.Sale.SKU, q.Buyer}] {
			continue
		}
		l.Orders[q.Buyer] = s.ordersPerBuyer
		switch p, late := orders.LateOf(q); {
		case late:
			ids = append(ids, p.Order)
			units, err := s.countUnits(tx, l.Sale.SKU, []string{q.Buyer})
			if err != nil {
				return err
			}
			l.Units[q.Buyer] = units[q.Buyer]
		case q.Key == "":
			ids = append(ids, q.OrderID)
		default: // that finds the order itself, too
			keys = append(keys, l.Sale.SKU, q.Buyer, q.Key)
		}
	}
	var byID, byKey []orders.Order
	var err error
	if len(ids) > 0 {
		byID, err = readForLedger(tx, "orders", "id IN ("+list("?", len(ids))+")", ids)
	}
	if err == nil && len(keys) > 0 {
		byKey, err = readForLedger(tx, s.ordersByKey(), s.in("sku, buyer, idempotency_key", 3, len(keys)/3), keys)
	}
	for _, o := range append(byID, byKey...) {
		l.Know(&o)
	}
	return err
}

// readLate reads in full the orders that late payments of the batch are for,
// and what is refunded of them.
func readLate(tx *gorm.DB, l *orders.Ledger, batch []inventory.Queued) error {
	var ids []string
	for _, q := range batch {
		if p, late := orders.LateOf(q); late {
			ids = append(ids, p.Order)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []orders.Order
	if err := tx.Where("id IN ? AND sku = ?", ids, l.Sale.SKU).Find(&rows).Error; err != nil {
		return fmt.Errorf("read %d orders paid late: %w", len(ids), err)
	}
	for i := range rows {
		if known := l.ByID[rows[i].ID]; known != nil {
			*known = rows[i]
		} else { // of a buyer who is full
			l.Know(&rows[i])
		}
	}
	var refunds []orders.Claim
	if err := tx.Where("order_id IN ?", ids).Find(&refunds).Error; err != nil {
		return fmt.Errorf("read refunds of %d orders: %w", len(ids), err)
	}
	for _, r := range refunds {
		l.Claimed[orders.LatePayment{Order: r.OrderID, Ref: r.PaymentRef}] = true
	}
	return nil
}

// loadKnown reads the rows that were there before, with all columns. A ledger has only the
// columns that a decision needs, and callers receive whole orders.
func loadKnown(tx *gorm.DB, decisions [][]orders.Decision) error {
	known := map[string]*orders.Order{}
	for _, batch := range decisions {
		for _, d := range batch {
			if d.Action != orders.Insert && d.Order != nil {
				known[d.Order.ID] = d.Order
			}
		}
	}
	if len(known) == 0 {
		return nil
	}
	var rows []orders.Order
	err := tx.Where("id IN ?", slices.Collect(maps.Keys(known))).Find(&rows).Error
	for i := range rows {
		*known[rows[i].ID] = rows[i]
	}
	return wrap(err, "read %d known orders", len(known))
}
