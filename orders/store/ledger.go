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

// A ledger is read under the lock of the sale's row. It must not take longer if a buyer has
// made many orders before. When all orders were read, commits with a buyer of 100,000 orders
// took 260 times as long.

// The first query of readBuyers reads up to usualOrders rows per buyer, and fewMore rows per
// batch. If the buyers have more orders, further queries follow.
const usualOrders, fewMore = 2, 16

// ReadLedgers reads a ledger for each batch, with all orders that the batch's buyers have
// made of the SKU. For a buyer with OrdersPerBuyer orders it reads only the orders that the
// batch names.
func (s *Store) ReadLedgers(tx *gorm.DB, batches []LockedBatch) ([]*orders.Ledger, error) {
	var buyers []saleBuyer
	created := map[string]time.Time{} // SKU → creation time of the sale
	for _, batch := range batches {
		created[batch.Sale.SKU] = batch.Sale.CreatedAt
		for _, q := range batch.Orders {
			buyers = append(buyers, saleBuyer{batch.Sale.SKU, q.Buyer})
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
	for i, batch := range batches {
		l := orders.NewLedger(&batch.Sale.Sale, batch.Sale.Now, bySKU[batch.Sale.SKU])
		l.OrdersPerBuyer = s.ordersPerBuyer
		if len(full) > 0 {
			err = s.readFull(tx, l, full, batch)
		}
		if err == nil {
			err = readPayments(tx, l, batch.Orders)
		}
		if err != nil {
			return nil, err
		}
		ledgers[i] = l
	}
	return ledgers, nil
}

// readBuyers reads all orders of the buyers, which are sorted. A buyer with ordersPerBuyer
// orders is added to full instead.
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
		// Some buyers have many orders. The page has all orders of its buyers, except
		// perhaps of the last one.
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

// isFull reports whether the buyer has ordersPerBuyer orders. The database reads at most that
// number of index entries, and no rows.
func (s *Store) isFull(tx *gorm.DB, b saleBuyer) (bool, error) {
	var found []string
	err := tx.Table(s.ordersByKey()).Where("sku = ? AND buyer = ?", b.sku, b.buyer).
		Limit(1).Offset(int(s.ordersPerBuyer-1)).Pluck("sku", &found).Error
	return len(found) > 0, err
}

// readFull adds to the ledger the orders of full buyers that the batch names. For a
// Payment it also reads the buyer's units.
func (s *Store) readFull(tx *gorm.DB, l *orders.Ledger, full map[saleBuyer]bool, batch LockedBatch) error {
	var ids, keys []any
	for _, q := range batch.Orders {
		if !full[saleBuyer{l.Sale.SKU, q.Buyer}] {
			continue
		}
		l.OrderCount[q.Buyer] = s.ordersPerBuyer
		switch p, pays := orders.PaymentOf(q); {
		case pays:
			ids = append(ids, p.OrderID)
			units, err := s.countUnits(tx, l.Sale.SKU, []string{q.Buyer})
			if err != nil {
				return err
			}
			l.Units[q.Buyer] = units[q.Buyer]
		case q.Key == "":
			ids = append(ids, q.OrderID)
		default: // the key also finds the order itself
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
		l.IndexOrder(&o)
	}
	return err
}

// readPayments reads all columns of the orders that payments of the batch are for, and their
// refund claims.
func readPayments(tx *gorm.DB, l *orders.Ledger, batch []inventory.QueuedOrder) error {
	var ids []string
	for _, q := range batch {
		if p, ok := orders.PaymentOf(q); ok {
			ids = append(ids, p.OrderID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []orders.Order
	if err := tx.Where("id IN ? AND sku = ?", ids, l.Sale.SKU).Find(&rows).Error; err != nil {
		return fmt.Errorf("read %d orders to be paid: %w", len(ids), err)
	}
	for i := range rows {
		if known := l.ByID[rows[i].ID]; known != nil {
			*known = rows[i]
		} else { // the buyer is full
			l.IndexOrder(&rows[i])
		}
	}
	var claims []orders.Claim
	if err := tx.Where("order_id IN ?", ids).Find(&claims).Error; err != nil {
		return fmt.Errorf("read claims of %d orders: %w", len(ids), err)
	}
	for _, c := range claims {
		l.Claimed[orders.Payment{OrderID: c.OrderID, Ref: c.PaymentRef}] = true
	}
	return nil
}

// loadExisting reads all columns of the orders that existed before. A ledger has only the
// ledgerColumns, and callers receive whole orders.
func loadExisting(tx *gorm.DB, decisions [][]orders.Decision) error {
	existing := map[string]*orders.Order{}
	for _, batch := range decisions {
		for _, d := range batch {
			if d.Action != orders.Insert && d.Order != nil {
				existing[d.Order.ID] = d.Order
			}
		}
	}
	if len(existing) == 0 {
		return nil
	}
	var rows []orders.Order
	err := tx.Where("id IN ?", slices.Collect(maps.Keys(existing))).Find(&rows).Error
	for i := range rows {
		*existing[rows[i].ID] = rows[i]
	}
	return wrap(err, "read %d existing orders", len(existing))
}
