package orders

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// A round is a walk over all holds and all buyers of one SKU, from both sides,
// a page with each round of the patrol: however many there are, no order waits
// for longer than a page takes. It keeps nothing but what it found to be off.
type round struct {
	at     int    // which walk
	cursor uint64 // at the gate
	after  string // in the database
	orders map[string]bool
	buyers map[string]bool
}

const (
	walks    = 4
	walkPage = 200 // orders by buyer in a page, and buyers of one query
	enough   = 500 // differences; more would make no difference
)

// step goes one page further and tells whether the round is through. What is
// off on a page is looked at once more in the same step, exactly.
func (k *keeper) step(ctx context.Context, r *round) (through bool, err error) {
	var ids, buyers []string
	last := false // page of its walk
	switch r.at {
	case 0: // all at once, where there is little
		small, err := k.small(ctx, r)
		if err != nil {
			return true, err
		}
		if last = true; small {
			r.at = walks - 1
		}
	case 1: // holds that no order stands behind
		ids, r.cursor, err = k.gate.HeldPage(ctx, k.sku, r.cursor)
		last = r.cursor == 0
	case 2: // buyers who have less than the gate says
		var units map[string]int64
		units, r.cursor, err = k.gate.BuyersPage(ctx, k.sku, r.cursor)
		last = r.cursor == 0
		// Only the buyers: their orders, of which each may have many, come with
		// the next walk.
		for names := range slices.Chunk(slices.Collect(maps.Keys(units)), walkPage) {
			err = errors.Join(err, k.note(ctx, r, nil, names))
		}
	case 3: // open orders without a hold, and buyers who have more than the gate says
		var more bool
		buyers, more, err = k.store.BuyersAfter(ctx, k.sku, r.after, walkPage)
		if last = !more; more {
			r.after = buyers[len(buyers)-1]
		}
	}
	if err == nil {
		err = k.look(ctx, r, ids, buyers)
	}
	if err != nil {
		return true, err // the next one begins anew
	}
	if last {
		r.at++
	}
	if r.at < walks && len(r.orders)+len(r.buyers) < enough {
		return false, nil
	}
	if len(r.orders)+len(r.buyers) > 0 {
		k.orders, k.buyers = r.orders, r.buyers
		k.suspect.Store(true)
	}
	return true, nil
}

// small compares a whole sale in four round trips, if it has few buyers: of a
// thousand sales most are at rest, and this is what they cost. It reads one
// after the other, so what seems off is looked at once more, exactly.
func (k *keeper) small(ctx context.Context, r *round) (bool, error) {
	buyers, more, err := k.store.BuyersAfter(ctx, k.sku, "", walkPage)
	if err != nil || more {
		return false, err
	}
	var rows []Order
	if len(buyers) > 0 {
		if rows, err = k.store.Counting(ctx, k.sku, buyers); err != nil {
			return false, err
		}
	}
	held, next, err := k.gate.HeldPage(ctx, k.sku, 0)
	if err != nil || next != 0 {
		return false, err
	}
	counts, next, err := k.gate.BuyersPage(ctx, k.sku, 0)
	if err != nil || next != 0 {
		return false, err
	}
	off := set(held)
	for i := range rows {
		counts[rows[i].Buyer] -= rows[i].Quantity
		switch id := rows[i].ID; {
		case rows[i].RestoredAt == nil && off[id]:
			delete(off, id)
		case rows[i].Status == PendingPayment:
			off[id] = true
		}
	}
	maps.DeleteFunc(counts, func(_ string, n int64) bool { return n == 0 })
	for some := range slices.Chunk(slices.Collect(maps.Keys(off)), enough) {
		if err := k.note(ctx, r, some, nil); err != nil {
			return true, err
		}
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(counts)), enough) {
		if err := k.note(ctx, r, nil, some); err != nil {
			return true, err
		}
	}
	return true, nil
}

// look compares these orders, these buyers, and the orders of these buyers.
func (k *keeper) look(ctx context.Context, r *round, ids, buyers []string) error {
	for names := range slices.Chunk(buyers, walkPage) {
		rows, err := k.store.Counting(ctx, k.sku, names)
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Status == PendingPayment {
				ids = append(ids, rows[i].ID)
			}
		}
		if err := k.note(ctx, r, nil, names); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(ids, enough) {
		if err := k.note(ctx, r, some, nil); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) note(ctx context.Context, r *round, ids, buyers []string) error {
	d, err := k.differences(ctx, set(ids), set(buyers))
	if err != nil || !d.known {
		return err
	}
	r.orders, r.buyers = union(r.orders, d.orders), union(r.buyers, d.buyers)
	return nil
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

func union(a, b map[string]bool) map[string]bool {
	if a == nil {
		return b
	}
	for name := range b {
		a[name] = true
	}
	return a
}
