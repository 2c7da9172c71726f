package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"

	"flashsale/orders"
)

// A scan goes over all holds and all buyers of one SKU, from both sides, a page
// after the other: however many there are, no order waits for longer than a page
// takes. It keeps nothing but what it found to be off.
type scan struct {
	at     int    // which of its walks
	cursor uint64 // at the gate
	after  string // in the database
	orders map[string]bool
	buyers map[string]bool
}

func newScan() *scan { return &scan{orders: map[string]bool{}, buyers: map[string]bool{}} }

const (
	scanWalks      = 3
	scanPage       = 200 // orders by buyer in a page, and buyers of one query
	maxDifferences = 500 // differences; more would make no difference
)

// scanPages goes on with a scan, so far that it ends within its rounds, however
// many orders there are.
func (k *Keeper) scanPages(ctx context.Context) error {
	pages := int64(1)
	if b := k.balance.Load(); b != nil {
		pages += scanWalks * (b.Total - b.Available) / scanPage / k.rounds
	}
	for ; pages > 0 && k.scan != nil; pages-- {
		through, err := k.step(ctx, k.scan)
		if through {
			k.scan = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step goes one page further and tells whether the scan is through. What is
// off on a page is looked at once more in the same step, exactly.
func (k *Keeper) step(ctx context.Context, r *scan) (through bool, err error) {
	var ids, buyers []string
	last := false // page of its walk
	switch r.at {
	case 0: // holds that no order stands behind
		ids, r.cursor, err = k.gate.ScanHolds(ctx, k.sku, r.cursor)
		last = r.cursor == 0
	case 1: // buyers who have less than the gate says
		var withUnits []string
		withUnits, r.cursor, err = k.gate.ScanBuyers(ctx, k.sku, r.cursor)
		last = r.cursor == 0
		// Only the buyers: their orders, of which each may have many, come with
		// the next walk.
		for names := range slices.Chunk(withUnits, scanPage) {
			err = errors.Join(err, k.noteDrift(ctx, r, nil, names))
		}
	case 2: // open orders without a hold, and buyers who have more than the gate says
		var more bool
		buyers, more, err = k.store.BuyersAfter(ctx, k.sku, r.after, scanPage)
		if last = !more; more {
			r.after = buyers[len(buyers)-1]
		}
	}
	if err == nil {
		err = k.compareRows(ctx, r, ids, buyers)
	}
	if err != nil {
		return true, err // the next one begins anew
	}
	if last {
		r.at++
	}
	if r.at < scanWalks && len(r.orders)+len(r.buyers) < maxDifferences {
		return false, nil
	}
	if len(r.orders)+len(r.buyers) > 0 {
		k.orders, k.buyers = r.orders, r.buyers
		k.todo |= Compare
	}
	return true, nil
}

// compareRows compares these orders, these buyers, and the orders of these buyers.
func (k *Keeper) compareRows(ctx context.Context, r *scan, ids, buyers []string) error {
	for names := range slices.Chunk(buyers, scanPage) {
		rows, err := k.store.Counting(ctx, k.sku, names)
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Status == orders.PendingPayment {
				ids = append(ids, rows[i].ID)
			}
		}
		if err := k.noteDrift(ctx, r, nil, names); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(ids, maxDifferences) {
		if err := k.noteDrift(ctx, r, some, nil); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) noteDrift(ctx context.Context, r *scan, ids, buyers []string) error {
	d, err := k.measure(ctx, ids, buyers)
	if err != nil || !d.known {
		return err
	}
	maps.Copy(r.orders, d.orders)
	maps.Copy(r.buyers, d.buyers)
	return nil
}
