package store

import (
	"context"
	"errors"
	"fmt"

	"flashsale/inventory"
	"flashsale/orders"
)

// A Snapshot contains the orders of a sale that a keeper has read, and staged at the gate,
// before it shuts the gate for a rebuild. BeginEpoch then reads only the changes, however many
// orders the sale has.
//
// The orders that are not marked released show what has changed: an order that is new, pending,
// has ended or was paid by a Payment is not marked. Between the snapshot and the rebuild no
// order is marked, because only the keeper marks orders, and it is rebuilding. The ids and
// statuses of the unmarked orders, before and after, are therefore the exact difference.
type Snapshot struct {
	sku        string
	unreleased map[string]orders.Status // order id → status, of orders not marked released
	buyers     map[string]bool          // all buyers with an order, of any status
	after      string                   // the last buyer whose orders were read
	Step       func()                   // called repeatedly, as a sign of progress
}

// NewSnapshot returns an empty Snapshot of sku.
func NewSnapshot(sku string) *Snapshot {
	return &Snapshot{sku: sku, Step: func() {}, unreleased: map[string]orders.Status{}, buyers: map[string]bool{}}
}

// SnapshotPageSize is the approximate number of orders per page of a snapshot.
const SnapshotPageSize = 2000

// ReadPage reads the orders of the next buyers, without a lock. It returns false if there are
// no more. A buyer without units is included with 0 units, because the gate passes a replay of
// a known buyer on to the database.
func (s *Store) ReadPage(ctx context.Context, snap *Snapshot) (page inventory.Changes, more bool, err error) {
	buyers, more, err := s.BuyersAfter(ctx, snap.sku, snap.after, SnapshotPageSize)
	if err != nil || len(buyers) == 0 {
		return page, false, err
	}
	last := buyers[len(buyers)-1]
	page.Buyers = make(map[string]int64, len(buyers))
	err = s.eachOrder(ctx, snap.sku, snap.after, last, func(o *orders.Order, unreleased bool) {
		if unreleased {
			snap.unreleased[o.ID] = o.Status
		}
		snap.buyers[o.Buyer] = true
		units := page.Buyers[o.Buyer]
		if o.Status.CountsAsSold() {
			units += o.Quantity
		}
		page.Buyers[o.Buyer] = units
		if o.Status == orders.PendingPayment {
			page.Holds = append(page.Holds, o.Hold())
		}
	})
	if err != nil {
		return page, false, fmt.Errorf("take a snapshot of %s: %w", snap.sku, err)
	}
	snap.after = last
	return page, more, nil
}

// eachOrder calls f for each order of the buyers b with after < b <= last.
func (s *Store) eachOrder(ctx context.Context, sku, after, last string, f func(o *orders.Order, unreleased bool)) (err error) {
	rows, err := s.DB.WithContext(ctx).Table(s.ordersByKey()).Where("sku = ? AND buyer > ? AND buyer <= ?", sku, after, last).
		Select("id, status, restored_at IS NULL, buyer, quantity, created_at").Rows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() { // gorm would take longer than the database
		var o orders.Order
		var unreleased bool
		if err := rows.Scan(&o.ID, &o.Status, &unreleased, &o.Buyer, &o.Quantity, &o.CreatedAt); err != nil {
			return err
		}
		f(&o, unreleased)
	}
	return rows.Err()
}

// CatchUp brings a snapshot up to date, without a lock. The next CatchUp or BeginEpoch finds the
// changes that are made while it reads.
func (s *Store) CatchUp(ctx context.Context, snap *Snapshot) (inventory.Changes, error) {
	d, err := s.changesSince(s.DB.WithContext(ctx), snap)
	if err != nil {
		return d.Changes, fmt.Errorf("bring the snapshot of %s up to date: %w", snap.sku, err)
	}
	for id, status := range d.changed {
		snap.unreleased[id] = status
	}
	for buyer := range d.Buyers {
		snap.buyers[buyer] = true
	}
	return d.Changes, nil
}
