package orders

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"flashsale/inventory"
)

// Commit carries a batch of queued orders into the database, in ONE
// transaction under the keeper's fence: either all of it stands or nothing.
// Doing it again with the same batch changes nothing and gives the same
// verdicts, which is how a keeper finds out what became of a commit whose
// answer was lost.
//
// Errors: ErrFenced; else the outcome is unknown.
func (s *Store) Commit(ctx context.Context, sku string, fence int64, batch []inventory.Queued) ([]verdict, error) {
	var verdicts []verdict
	err := s.transact(ctx, func(tx *gorm.DB) error {
		// The row first: what is read after it can no longer change.
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err != nil {
			return err
		}
		verdicts, err = s.carry(tx, sale, batch, gated)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s: %w", len(batch), sku, err)
	}
	return verdicts, nil
}

// How orders come into the database.
type way int

const (
	gated   way = iota // the gate has let them in and holds their units
	ungated            // nobody has
	unheld             // nobody had to: they take no units until they are paid
)

// carry judges orders under the sale's row lock, inserts them and counts what
// they sell. Where no gate has let them in, who is refused leaves no row.
func (s *Store) carry(tx *gorm.DB, sale *lockedSale, batch []inventory.Queued, by way) ([]verdict, error) {
	l, err := s.readLedger(tx, sale, batch)
	if err != nil {
		return nil, err
	}
	l.ungated, l.unheld = by != gated, by == unheld
	verdicts := make([]verdict, len(batch))
	var rows []*Order
	var forgotten []string
	var refunds []*Refund
	var sold int64
	for i, q := range batch {
		v := l.judge(q)
		verdicts[i] = v
		if v.unrestore {
			forgotten = append(forgotten, v.order.ID)
		}
		if v.refund != nil {
			refunds = append(refunds, v.refund)
		}
		if v.late {
			if err := payAnew(tx, v, sale.Now); err != nil {
				return nil, err
			}
			sold += v.order.Quantity
		}
		if !v.insert {
			continue
		}
		rows = append(rows, v.order)
		if v.order.Status.Open() {
			sold += q.Quantity
		}
	}
	if len(forgotten) > 0 {
		err := tx.Model(&Order{}).Where("id IN ?", forgotten).Updates(map[string]any{"restored_at": nil}).Error
		if err != nil {
			return nil, fmt.Errorf("have %d orders of %s confirmed again: %w", len(forgotten), sale.SKU, err)
		}
	}
	if len(rows) > 0 {
		if err := tx.Create(rows).Error; err != nil {
			return nil, fmt.Errorf("insert %d orders of %s: %w", len(rows), sale.SKU, err)
		}
	}
	if len(refunds) > 0 {
		if err := tx.Create(refunds).Error; err != nil {
			return nil, fmt.Errorf("record %d refunds of %s: %w", len(refunds), sale.SKU, err)
		}
	}
	if !s.unguarded {
		if err := sell(tx, sale.SKU, sale.Fence, sold); err != nil {
			return nil, err
		}
	}
	return verdicts, complete(tx, verdicts)
}

// complete reads the orders that were there before in full: the ledger has as
// much of them as it takes to judge, and their callers want to see all.
func complete(tx *gorm.DB, verdicts []verdict) error {
	var ids []string
	for _, v := range verdicts {
		if !v.insert && v.order != nil {
			ids = append(ids, v.order.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []Order
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return fmt.Errorf("read %d known orders: %w", len(ids), err)
	}
	byID := make(map[string]*Order, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	for i, v := range verdicts {
		if !v.insert && v.order != nil {
			verdicts[i].order = byID[v.order.ID]
		}
	}
	return nil
}

// sell counts units as sold: not one past the total, and only for the keeper
// whose fence it is. That both hold is known since the row was locked; that
// the database says so too costs nothing and does not depend on it.
func sell(tx *gorm.DB, sku string, fence, units int64) error {
	if units == 0 {
		return nil
	}
	r := tx.Exec("UPDATE sales SET sold = sold + ? WHERE sku = ? AND fence = ? AND sold + ? <= total", units, sku, fence, units)
	if r.Error != nil {
		return fmt.Errorf("count %d units of %s as sold: %w", units, sku, r.Error)
	}
	if r.RowsAffected != 1 {
		return fmt.Errorf("count %d units of %s as sold: refused: %w", units, sku, ErrFenced)
	}
	return nil
}

// ordersByKey is the orders table, read by its index of buyers and keys. Left
// to itself MariaDB rather reads all orders of the SKU for a large batch: 27 ms
// of its CPU instead of 2, and growing with the sale.
func (s *Store) ordersByKey() string {
	if s.sqlite {
		return "orders INDEXED BY orders_key"
	}
	return "orders FORCE INDEX (orders_key)"
}

// judged is what a ledger needs of an order: half of its columns.
var judged = []string{"id", "buyer", "quantity", "status", "idempotency_key", "request_hash", "restored_at"}

// readLedger reads all orders of the batch's buyers: their units, their keys
// and, since an order's buyer never changes, the orders themselves.
func (s *Store) readLedger(tx *gorm.DB, sale *lockedSale, batch []inventory.Queued) (*ledger, error) {
	buyers := make([]string, 0, len(batch))
	seen := make(map[string]bool, len(batch))
	for _, q := range batch {
		if !seen[q.Buyer] {
			seen[q.Buyer] = true
			buyers = append(buyers, q.Buyer)
		}
	}
	var rows []Order
	if err := tx.Table(s.ordersByKey()).Select(judged).Where("sku = ? AND buyer IN ?", sale.SKU, buyers).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read orders of %d buyers: %w", len(buyers), err)
	}
	l := newLedger(&sale.Sale, sale.Now, rows)
	l.unguarded = s.unguarded
	return l, l.readLate(tx, batch)
}
