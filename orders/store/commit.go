package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// Commit lets Ledger.Decide decide on a batch of queued orders and writes the decisions, in ONE
// transaction under the keeper's fence. Either the whole batch is committed or nothing. If the
// answer is lost, the keeper calls Commit again: a batch that was committed before changes
// nothing and returns the same decisions.
//
// If the error is ErrFenced or inventory.ErrEpoch, nothing was changed. After any other error
// the outcome is unknown.
func (s *Store) Commit(ctx context.Context, sku string, fence int64, queued []inventory.QueuedOrder) ([]orders.Decision, error) {
	decisions, err := s.decideDurably(ctx, func(tx *gorm.DB) ([][]orders.Decision, error) {
		// The row lock comes first. No other transaction can then insert or close orders.
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err == nil && !sameGate(sale, queued) {
			err = inventory.ErrEpoch
		}
		if err != nil {
			return nil, err
		}
		return s.decideAndWrite(tx, []LockedBatch{{Sale: sale, fence: fence, Orders: queued}}, gated)
	})
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s: %w", len(queued), sku, err)
	}
	return decisions[0], nil
}

// sameGate reports whether the gate of the sale's epoch accepted the orders. An order that an
// older gate accepted must not be committed, because its key may have been refused since.
func sameGate(sale *LockedSale, queued []inventory.QueuedOrder) bool {
	return !slices.ContainsFunc(queued, func(q inventory.QueuedOrder) bool { return q.Epoch != sale.Epoch })
}

// An origin is the way on which orders reach the database.
type origin int

// The origins.
const (
	gated      origin = iota // a gate has accepted the orders and holds their units
	DirectMode               // no gate has accepted the orders: direct mode
	onPayment                // the orders need no gate, because they take no units until they are paid
)

// A LockedBatch contains the orders of one SKU in a transaction that has locked the sale's row.
type LockedBatch struct {
	Sale   *LockedSale
	fence  int64 // the fence that the sale must still have
	Orders []inventory.QueuedOrder
	window orders.Reason // Ledger.Window
}

// decideAndWrite decides on orders whose sales are locked, inserts their rows and counts the
// units sold. If no gate has accepted the orders, a refused order leaves no row.
func (s *Store) decideAndWrite(tx *gorm.DB, batches []LockedBatch, via origin) ([][]orders.Decision, error) {
	ledgers, err := s.ReadLedgers(tx, batches)
	if err != nil {
		return nil, err
	}
	decisions := make([][]orders.Decision, len(batches))
	sold := make([]int64, len(batches))
	var rows []*orders.Order
	for i, l := range ledgers {
		l.WithoutGate, l.OnPayment, l.Window = via != gated, via == onPayment, batches[i].window
		for _, q := range batches[i].Orders {
			d := l.Decide(q)
			decisions[i] = append(decisions[i], d)
			if d.Action == orders.Insert {
				rows = append(rows, d.Order)
			}
			if d.Action == orders.MarkPaid || d.Action == orders.Insert && d.Order.Status.CountsAsSold() {
				sold[i] += d.Order.Quantity
			}
		}
		if err := writePayments(tx, decisions[i], l.Now); err != nil {
			return nil, err
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
	return decisions, loadExisting(tx, decisions)
}

// countSold adds units to sales.sold. The fence and the total were checked when the row was
// locked. The conditions make the database check them again, at no cost.
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

// errRefused is returned if the fence or the total has changed although the sale's row is
// locked.
var errRefused = errors.New("orders: the sale's row rejected the units: its fence or its total has changed")
