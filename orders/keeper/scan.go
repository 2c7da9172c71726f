package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"

	"flashsale/orders"
)

// A scan compares all holds and buyers at the gate with the database, and all open orders in the
// database with the gate. It runs page by page, so that an order waits no longer than a page
// takes. It stores only differences.
type scan struct {
	walk   int    // number of the current walk
	cursor uint64 // position at the gate
	after  string // position in the database: the last buyer of the previous page
	orders map[string]bool
	buyers map[string]bool
}

func newScan() *scan { return &scan{orders: map[string]bool{}, buyers: map[string]bool{}} }

const (
	scanWalks      = 3
	scanPage       = 200 // number of buyers in a page of the database and in a query
	maxDifferences = 500 // number of differences that ends a scan: the gate will be rebuilt anyway
)

// scanPages compares enough pages for the scan to end within Config.ScanPasses passes, however
// many orders the sale has.
func (k *Keeper) scanPages(ctx context.Context) error {
	pages := int64(1)
	if b := k.balance.Load(); b != nil {
		pages += scanWalks * (b.Total - b.Available) / scanPage / k.scanPasses
	}
	for ; pages > 0 && k.scan != nil; pages-- {
		ended, err := k.step(ctx, k.scan)
		if ended {
			k.scan = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step compares the next page and reports whether the scan has ended. A page contains only
// ids and buyers, which measure then compares exactly.
func (k *Keeper) step(ctx context.Context, s *scan) (ended bool, err error) {
	var ids, buyers []string
	last := false // whether this is the last page of the walk
	switch s.walk {
	case 0: // finds holds without an order
		ids, s.cursor, err = k.gate.ScanHolds(ctx, k.sku, s.cursor)
		last = s.cursor == 0
	case 1: // finds buyers with fewer units than the gate has counted
		var withUnits []string
		withUnits, s.cursor, err = k.gate.ScanBuyers(ctx, k.sku, s.cursor)
		last = s.cursor == 0
		// A buyer may have many orders. The next walk compares them.
		for names := range slices.Chunk(withUnits, scanPage) {
			err = errors.Join(err, k.noteDrift(ctx, s, nil, names))
		}
	case 2: // finds open orders without a hold, and buyers with more units than the gate has counted
		var more bool
		buyers, more, err = k.store.BuyersAfter(ctx, k.sku, s.after, scanPage)
		if last = !more; more {
			s.after = buyers[len(buyers)-1]
		}
	}
	if err == nil {
		err = k.compareRows(ctx, s, ids, buyers)
	}
	if err != nil {
		return true, err // the next scan starts from the beginning
	}
	if last {
		s.walk++
	}
	if s.walk < scanWalks && len(s.orders)+len(s.buyers) < maxDifferences {
		return false, nil
	}
	if len(s.orders)+len(s.buyers) > 0 {
		k.orders, k.buyers = s.orders, s.buyers
		k.todo |= CompareSums
	}
	return true, nil
}

// compareRows compares the given orders, the given buyers, and the orders of these buyers.
func (k *Keeper) compareRows(ctx context.Context, s *scan, ids, buyers []string) error {
	for names := range slices.Chunk(buyers, scanPage) {
		rows, err := k.store.OrdersAtGate(ctx, k.sku, names)
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Status == orders.PendingPayment {
				ids = append(ids, rows[i].ID)
			}
		}
		if err := k.noteDrift(ctx, s, nil, names); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(ids, maxDifferences) {
		if err := k.noteDrift(ctx, s, page, nil); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) noteDrift(ctx context.Context, s *scan, ids, buyers []string) error {
	d, err := k.measure(ctx, ids, buyers)
	if err != nil || !d.compared {
		return err
	}
	maps.Copy(s.orders, d.orders)
	maps.Copy(s.buyers, d.buyers)
	return nil
}
