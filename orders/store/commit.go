package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// Commit carries a batch of queued orders into the database, in ONE transaction under the
// keeper's fence: either all of it is committed or nothing. A repetition with the same
// batch changes nothing and returns the same decisions. In this way a keeper finds the
// outcome of a commit whose answer was lost.
//
// After ErrFenced and inventory.ErrEpoch nothing has happened. After any other error
// the outcome is unknown.
func (s *Store) Commit(ctx context.Context, sku string, fence int64, queued []inventory.Queued) ([]orders.Decision, error) {
	decisions, err := transact(ctx, s, func(tx *gorm.DB) ([]orders.Decision, error) {
		// Lock the row first, so that rows read later can no longer change.
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err == nil && !sameGate(sale, queued) {
			err = inventory.ErrEpoch
		}
		if err != nil {
			return nil, err
		}
		return s.insertBatch(tx, SaleBatch{Sale: sale, fence: fence, Orders: queued}, gated)
	})
	if err == nil {
		err = s.confirm(ctx, decisions)
	}
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s: %w", len(queued), sku, err)
	}
	return decisions, nil
}

// sameGate reports whether the gate of the sale's epoch accepted the orders. An order that
// an older gate accepted must not be committed, because its key may have been refused
// since.
func sameGate(sale *LockedSale, queued []inventory.Queued) bool {
	return !slices.ContainsFunc(queued, func(q inventory.Queued) bool { return q.Epoch != sale.Epoch })
}

// How orders come into the database.
type origin int

const (
	gated     origin = iota // the gate has let them in and holds their units
	PastGate                // no gate has
	onPayment               // no gate has to: they take no units until they are paid
)

// SaleBatch is what a transaction carries of one SKU, whose row it has locked.
type SaleBatch struct {
	Sale   *LockedSale
	fence  int64 // under which it is done
	Orders []inventory.Queued
	window orders.Reason // for orders without a gate: the reason to refuse all of them, NotOpen or Closed
}

// insertBatch is insertBatches for one SKU.
func (s *Store) insertBatch(tx *gorm.DB, one SaleBatch, by origin) ([]orders.Decision, error) {
	decisions, err := s.insertBatches(tx, []SaleBatch{one}, by)
	if err != nil {
		return nil, err
	}
	return decisions[0], nil
}

// insertBatches decides on orders under their sales' row locks, inserts them and counts what
// they sell. Where no gate has let them in, a refused order leaves no row.
func (s *Store) insertBatches(tx *gorm.DB, batches []SaleBatch, by origin) ([][]orders.Decision, error) {
	ledgers, err := s.ReadLedgers(tx, batches)
	if err != nil {
		return nil, err
	}
	decisions := make([][]orders.Decision, len(batches))
	sold := make([]int64, len(batches))
	var rows []*orders.Order
	var forgotten []string
	for i, l := range ledgers {
		l.PastGate, l.OnPayment, l.Window = by != gated, by == onPayment, batches[i].window
		decisions[i] = make([]orders.Decision, len(batches[i].Orders))
		for j, q := range batches[i].Orders {
			v := l.Decide(q)
			decisions[i][j] = v
			if err := payOrOwe(tx, v, l.Now); err != nil {
				return nil, err
			}
			if v.Hold == orders.Reconfirm {
				forgotten = append(forgotten, v.Order.ID)
			}
			if v.Action == orders.Insert {
				rows = append(rows, v.Order)
			}
			if v.Action == orders.PayLate || v.Action == orders.Insert && v.Order.Status.Open() {
				sold[i] += v.Order.Quantity
			}
		}
	}
	if len(forgotten) > 0 {
		err := tx.Model(&orders.Order{}).Where("id IN ?", forgotten).Updates(map[string]any{"restored_at": nil}).Error
		if err != nil {
			return nil, fmt.Errorf("have %d orders confirmed again: %w", len(forgotten), err)
		}
	}
	if err := insertOrders(tx, rows); err != nil {
		return nil, err
	}
	if len(batches) == 1 {
		err = countSold(tx, batches[0].Sale.SKU, batches[0].fence, sold[0])
	} else {
		err = countTogether(tx, batches, sold)
	}
	if err != nil {
		return nil, err
	}
	return decisions, loadKnown(tx, decisions)
}

// payOrOwe writes what a decision on a late payment says: that the order is paid
// after all, or that the payment is due back.
func payOrOwe(tx *gorm.DB, v orders.Decision, now time.Time) error {
	switch v.Action {
	case orders.PayLate:
		return payAnew(tx, v, now)
	case orders.RecordClaim:
		if err := addClaim(tx, v.Order, v.Claim); err != nil {
			return fmt.Errorf("record a refund of %s: %w", v.Order.ID, err)
		}
	}
	return nil
}

// loadKnown reads the orders that were there before in full: the ledger has as
// much of them as it takes to judge, and their callers want to see all.
func loadKnown(tx *gorm.DB, decisions [][]orders.Decision) error {
	var ids []string
	for _, its := range decisions {
		for _, v := range its {
			if v.Action != orders.Insert && v.Order != nil {
				ids = append(ids, v.Order.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []orders.Order
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return fmt.Errorf("read %d known orders: %w", len(ids), err)
	}
	byID := make(map[string]*orders.Order, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	for _, its := range decisions {
		for i, v := range its {
			if v.Action != orders.Insert && v.Order != nil {
				its[i].Order = byID[v.Order.ID]
			}
		}
	}
	return nil
}

// countSold adds units to what is sold, never past the total and only under the
// keeper's fence. Both were checked when the row was locked; here the database
// checks them itself, at no cost.
func countSold(tx *gorm.DB, sku string, fence, units int64) error {
	if units == 0 {
		return nil
	}
	r := tx.Exec("UPDATE sales SET sold = sold + ? WHERE sku = ? AND fence = ? AND sold + ? <= total", units, sku, fence, units)
	if r.Error == nil && r.RowsAffected != 1 {
		r.Error = errRefused
	}
	return wrap(r.Error, "count %d units of %s as sold", units, sku)
}

// errRefused says that the database has not counted units as sold, although the
// fence and the total were right when the sale's row was locked.
var errRefused = errors.New("orders: the fence or the total refuses")
