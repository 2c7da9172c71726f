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
// took 260 times as long, and commits with 25 buyers of 900 orders 20 times as long.

// The first query of readBuyers reads up to usualOrders rows per buyer, and fewMore rows per
// batch. If the buyers have more orders, further queries follow.
const usualOrders, fewMore = 2, 16

// A frequentBuyer has made more than fewMore orders of a sale. Orders are not deleted, so the
// buyer stays frequent.
type frequentBuyer struct {
	since time.Time // creation time of the sale, because the SKU of an archived sale may be used again
	full  bool      // the buyer has ordersPerBuyer orders
}

// ReadLedgers reads a ledger for each batch, with all orders that the batch's buyers have
// made of the SKU. For a frequent buyer it reads only the orders that the batch names, and the
// numbers of orders and units.
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
	full := map[saleBuyer]bool{} // has the frequent buyers
	rest := slices.DeleteFunc(buyers, func(b saleBuyer) bool {
		known, frequent := s.frequent.Get(b)
		if frequent = frequent && known.since.Equal(created[b.sku]); frequent {
			full[b] = known.full
		}
		return frequent
	})
	rows, err := s.readBuyers(tx, rest, full)
	if err != nil {
		return nil, fmt.Errorf("read the orders of a batch's buyers: %w", err)
	}
	bySKU := map[string][]orders.Order{}
	for _, o := range rows {
		bySKU[o.SKU] = append(bySKU[o.SKU], o)
	}
	for b, isFull := range full {
		if isFull {
			s.frequent.Add(b, frequentBuyer{created[b.sku], true})
		}
	}
	ledgers := make([]*orders.Ledger, len(batches))
	for i, batch := range batches {
		l := orders.NewLedger(&batch.Sale.Sale, batch.Sale.Now, bySKU[batch.Sale.SKU])
		l.OrdersPerBuyer = s.ordersPerBuyer
		if len(full) > 0 {
			err = s.readFrequent(tx, l, full, batch)
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

// readBuyers reads all orders of the buyers, which are sorted. A buyer with many orders is
// added to full instead, with whether the buyer has ordersPerBuyer orders.
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
		if full[last], err = s.isFull(tx, last); err != nil {
			return nil, err
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

// readFrequent adds to the ledger the orders of the buyers in full that the batch names, and the
// buyers' numbers of orders and units. It does not count the units of a buyer who is full, unless
// a Payment needs them.
func (s *Store) readFrequent(tx *gorm.DB, l *orders.Ledger, full map[saleBuyer]bool, batch LockedBatch) error {
	var ids, keys []any
	var counted []string
	for _, q := range batch.Orders {
		isFull, frequent := full[saleBuyer{l.Sale.SKU, q.Buyer}]
		if !frequent {
			continue
		}
		if isFull {
			l.OrderCount[q.Buyer] = s.ordersPerBuyer
		}
		p, pays := orders.PaymentOf(q)
		switch {
		case pays:
			ids = append(ids, p.OrderID)
		case q.Key == "":
			ids = append(ids, q.OrderID)
		default: // the key also finds the order itself
			keys = append(keys, l.Sale.SKU, q.Buyer, q.Key)
		}
		if pays || !isFull {
			counted = append(counted, q.Buyer)
		}
	}
	slices.Sort(counted)
	totals, err := s.countOrders(tx, l.Sale.SKU, slices.Compact(counted))
	if err != nil {
		return err
	}
	for _, t := range totals {
		l.OrderCount[t.Buyer], l.Units[t.Buyer] = t.Orders, t.Units
		if t.Orders > fewMore {
			s.frequent.Add(saleBuyer{l.Sale.SKU, t.Buyer}, frequentBuyer{l.Sale.CreatedAt, t.Orders >= s.ordersPerBuyer})
		}
	}
	var byID, byKey []orders.Order
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
