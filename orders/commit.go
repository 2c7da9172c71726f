package orders

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"flashsale/inventory"
)

// A batch is what a keeper has read of its SKU's queue.
type batch struct {
	sku    string
	fence  int64 // the keeper's
	orders []inventory.Queued
}

// Commit carries a batch of queued orders into the database, in ONE
// transaction under the keeper's fence: either all of it stands or nothing.
// Doing it again with the same batch changes nothing and gives the same
// verdicts, which is how a keeper finds out what became of a commit whose
// answer was lost.
//
// Errors: ErrFenced; else the outcome is unknown.
func (s *Store) Commit(ctx context.Context, sku string, fence int64, orders []inventory.Queued) ([]verdict, error) {
	var verdicts []verdict
	err := s.transact(ctx, func(tx *gorm.DB) error {
		// The row first: what is read after it can no longer change.
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err != nil {
			return err
		}
		verdicts, err = s.carryOne(tx, share{sale, fence, orders}, gated)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s: %w", len(orders), sku, err)
	}
	return verdicts, nil
}

// CommitTogether is Commit for batches of several SKUs in one transaction, each
// under its own fence. A SKU whose row somebody else has locked, or whose fence
// has changed, is left out and its verdicts are nil: it is carried by itself,
// so that those it would hold up or fail with it are not.
func (s *Store) CommitTogether(ctx context.Context, batches []batch) ([][]verdict, error) {
	var verdicts [][]verdict
	err := s.transact(ctx, func(tx *gorm.DB) error {
		sales, err := s.lockFree(tx, batches)
		if err != nil {
			return err
		}
		verdicts = make([][]verdict, len(batches))
		var shares []share
		var of []int // which batch each share is
		for i, b := range batches {
			if sale := sales[b.sku]; sale != nil && sale.Fence == b.fence {
				shares, of = append(shares, share{sale, b.fence, b.orders}), append(of, i)
			}
		}
		carried, err := s.carry(tx, shares, gated)
		for i, v := range carried {
			verdicts[of[i]] = v
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit orders of %d SKUs together: %w", len(batches), err)
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

// A share is what a transaction carries of one SKU, whose row it has locked.
type share struct {
	sale   *lockedSale
	fence  int64 // under which it is done
	orders []inventory.Queued
}

// carryOne is carry for one SKU.
func (s *Store) carryOne(tx *gorm.DB, one share, by way) ([]verdict, error) {
	verdicts, err := s.carry(tx, []share{one}, by)
	if err != nil {
		return nil, err
	}
	return verdicts[0], nil
}

// carry judges orders under their sales' row locks, inserts them and counts what
// they sell. Where no gate has let them in, who is refused leaves no row.
func (s *Store) carry(tx *gorm.DB, shares []share, by way) ([][]verdict, error) {
	ledgers, err := s.readLedgers(tx, shares)
	if err != nil {
		return nil, err
	}
	verdicts := make([][]verdict, len(shares))
	sold := make([]int64, len(shares))
	var rows []*Order
	var forgotten []string
	var refunds []*Refund
	for i, l := range ledgers {
		l.ungated, l.unheld = by != gated, by == unheld
		verdicts[i] = make([]verdict, len(shares[i].orders))
		for j, q := range shares[i].orders {
			v := l.judge(q)
			verdicts[i][j] = v
			if v.unrestore {
				forgotten = append(forgotten, v.order.ID)
			}
			if v.refund != nil {
				refunds = append(refunds, v.refund)
			}
			if v.late {
				if err := payAnew(tx, v, l.now); err != nil {
					return nil, err
				}
				sold[i] += v.order.Quantity
			}
			if !v.insert {
				continue
			}
			rows = append(rows, v.order)
			if v.order.Status.Open() {
				sold[i] += q.Quantity
			}
		}
	}
	if len(forgotten) > 0 {
		err := tx.Model(&Order{}).Where("id IN ?", forgotten).Updates(map[string]any{"restored_at": nil}).Error
		if err != nil {
			return nil, fmt.Errorf("have %d orders confirmed again: %w", len(forgotten), err)
		}
	}
	if err := insertOrders(tx, rows); err != nil {
		return nil, err
	}
	if len(refunds) > 0 {
		if err := tx.Create(refunds).Error; err != nil {
			return nil, fmt.Errorf("record %d refunds: %w", len(refunds), err)
		}
	}
	if !s.unguarded {
		for i, units := range sold {
			if err := sell(tx, shares[i].sale.SKU, shares[i].fence, units); err != nil {
				return nil, err
			}
		}
	}
	return verdicts, complete(tx, verdicts)
}

// complete reads the orders that were there before in full: the ledger has as
// much of them as it takes to judge, and their callers want to see all.
func complete(tx *gorm.DB, verdicts [][]verdict) error {
	var ids []string
	for _, its := range verdicts {
		for _, v := range its {
			if !v.insert && v.order != nil {
				ids = append(ids, v.order.ID)
			}
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
	for _, its := range verdicts {
		for i, v := range its {
			if !v.insert && v.order != nil {
				its[i].order = byID[v.order.ID]
			}
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

// readLedgers reads all orders of the batches' buyers, each of the SKU that the
// buyer is asking for: their units, their keys and, since an order's buyer never
// changes, the orders themselves.
func (s *Store) readLedgers(tx *gorm.DB, shares []share) ([]*ledger, error) {
	var conditions []string
	var args []any
	for _, sh := range shares {
		if len(sh.orders) == 0 {
			continue
		}
		args = append(args, sh.sale.SKU)
		buyers := map[string]bool{}
		for _, q := range sh.orders {
			if !buyers[q.Buyer] {
				buyers[q.Buyer] = true
				args = append(args, q.Buyer)
			}
		}
		conditions = append(conditions, "sku = ? AND buyer IN ("+list("?", len(buyers))+")")
	}
	bySKU := map[string][]Order{}
	if len(conditions) > 0 {
		rows, err := readJudged(tx, s.ordersByKey(), strings.Join(conditions, " OR "), args)
		if err != nil {
			return nil, fmt.Errorf("read orders of %d buyers: %w", len(args)-len(conditions), err)
		}
		for _, o := range rows {
			bySKU[o.SKU] = append(bySKU[o.SKU], o)
		}
	}
	ledgers := make([]*ledger, len(shares))
	for i, sh := range shares {
		l := newLedger(&sh.sale.Sale, sh.sale.Now, bySKU[sh.sale.SKU])
		l.unguarded = s.unguarded
		if err := l.readLate(tx, sh.orders); err != nil {
			return nil, err
		}
		ledgers[i] = l
	}
	return ledgers, nil
}
