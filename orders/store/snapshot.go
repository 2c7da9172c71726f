package store

import (
	"context"
	"errors"
	"fmt"

	"flashsale/inventory"
	"flashsale/orders"
)

// A Snapshot is what a keeper has read of a sale's orders, and staged at the gate,
// before it shuts the gate for a rebuild: the transaction under the fence then
// reads only what has changed, however many orders there are.
//
// What has changed shows by the orders that are not marked released. An order
// that is new or pending, or has ended since, is not, nor is an expired one once
// it is paid late; and between a census and the rebuild nobody marks any: only
// the keeper does, and it is rebuilding. So the ids and statuses of those that
// are not marked, then and now, tell the difference, and exactly.
type Snapshot struct {
	sku        string
	unreleased map[string]orders.Status // by order id
	buyers     map[string]bool          // everybody who has ever had an order
	after      string                   // the buyer whom it has got to
	Step       func()                   // called again and again while it is taken: see watchdog.go
}

// NewSnapshot returns an empty Snapshot of sku.
func NewSnapshot(sku string) *Snapshot {
	return &Snapshot{sku: sku, Step: func() {}, unreleased: map[string]orders.Status{}, buyers: map[string]bool{}}
}

// CensusPage is about how many orders are read at once.
const CensusPage = 2000

// ReadPage reads the orders of the next buyers, and takes no lock. False: there
// are no more. A buyer who holds nothing is counted too, with 0: it lets a replay
// through to the database.
func (s *Store) ReadPage(ctx context.Context, c *Snapshot) (page inventory.Changes, more bool, err error) {
	buyers, more, err := s.BuyersAfter(ctx, c.sku, c.after, CensusPage)
	if err != nil || len(buyers) == 0 {
		return page, false, err
	}
	last := buyers[len(buyers)-1]
	page.Buyers = make(map[string]int64, len(buyers))
	err = s.eachOrder(ctx, c.sku, c.after, last, func(o *orders.Order, unreleased bool) {
		if unreleased {
			c.unreleased[o.ID] = o.Status
		}
		c.buyers[o.Buyer] = true
		units := page.Buyers[o.Buyer]
		if o.Status.Open() {
			units += o.Quantity
		}
		page.Buyers[o.Buyer] = units
		if o.Status == orders.PendingPayment {
			page.Holds = append(page.Holds, o.Hold())
		}
	})
	if err != nil {
		return page, false, fmt.Errorf("take a snapshot of %s: %w", c.sku, err)
	}
	c.after = last
	return page, more, nil
}

// eachOrder calls f with each order of the buyers after one, up to another.
func (s *Store) eachOrder(ctx context.Context, sku, after, last string, f func(o *orders.Order, unreleased bool)) (err error) {
	rows, err := s.DB.WithContext(ctx).Table(s.ordersByKey()).Where("sku = ? AND buyer > ? AND buyer <= ?", sku, after, last).
		Select("id, status, restored_at IS NULL, buyer, quantity, created_at").Rows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() { // by hand: gorm would take longer than the database
		var o orders.Order
		var unreleased bool
		if err := rows.Scan(&o.ID, &o.Status, &unreleased, &o.Buyer, &o.Quantity, &o.CreatedAt); err != nil {
			return err
		}
		f(&o, unreleased)
	}
	return rows.Err()
}

// CatchUp brings a census up to date, without a lock: what changes while it
// reads is found by the next one, or by the recount.
func (s *Store) CatchUp(ctx context.Context, c *Snapshot) (inventory.Changes, error) {
	d, err := s.since(s.DB.WithContext(ctx), c)
	if err != nil {
		return d.Changes, fmt.Errorf("bring the snapshot of %s up to date: %w", c.sku, err)
	}
	for id, status := range d.changed {
		c.unreleased[id] = status
	}
	for buyer := range d.Buyers {
		c.buyers[buyer] = true
	}
	return d.Changes, nil
}
