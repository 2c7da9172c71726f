package keeper

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

// A reconciler compares the gate with the database and finds drift, which only
// a store that lost or invented something can bring about. It is part of a
// keeper, and looks between the keeper's steps: nobody else carries anything
// from one store to the other, so nothing is half-way. What goes on meanwhile
// stays within one store, in one step: a buyer moves units from available to
// the queue, a closer from sold to restoring. So
//
//	total = available + queued + sold + restoring
//
// holds exactly, however busy the sale is, where the gate is read first and
// the fence with the rest: had another keeper been at work, it would show.
// The total is the gate's own, as a new one is not yet at the gate.
type reconciler struct {
	// released is true when restored_at is set for every order that the gate has released.
	// If it is not set for an order, the units of the order are on sale again and count
	// as restoring, too.
	released bool

	scan   *scan           // under way, or nil
	orders map[string]bool // what the last scan found off, and is off still
	buyers map[string]bool

	drifted *drift // the drift that the coming rebuild repairs, or nil
	symptom string // of the last comparison, "" for none
	times   int    // comparisons in a row that found it

	balance atomic.Pointer[Balance] // of the last comparison, for those who watch
}

// confirmations is how many comparisons in a row must find the same before the gate
// is rebuilt. A rebuild turns buyers away for a moment, so what passes by
// itself must not bring one about: one look may fall into a failover, with the
// gate read from the old primary and the next call answered by the new one;
// the second may be the first one of the new primary, before the keeper has
// drained what the old one's queue brought back; the third is after that.
const confirmations = 3

// The symptoms, by what gives them away.
const (
	unitsMissing  = "units missing"    // too little is on sale
	unitsTooMany  = "units too many"   // more is on sale than there is
	queueMiscount = "queue miscounted" // orders would be refused for a queue that is not full
	ordersDiffer  = "orders differ"    // a hold without an open order, an open order without a hold, a buyer's count
)

// reconcile is the part of a pass that compares. A scan goes on with each round
// of resync: a sale of a hundred thousand orders must not be slowed down by being
// looked at.
func (k *Keeper) reconcile(ctx context.Context) error {
	if k.todo&Compare != 0 {
		if err := k.check(ctx); err != nil {
			return err
		}
	}
	if k.todo&Scan != 0 && k.scan == nil && len(k.orders)+len(k.buyers) == 0 {
		k.scan = newScan()
	}
	k.todo &^= Scan
	if !k.released {
		k.todo |= Compare // once it is
	} else if k.todo&ScanPage != 0 {
		if err := k.scanPages(ctx); err != nil {
			return err
		}
	}
	if k.todo &^= ScanPage; k.scan != nil {
		k.todo |= ScanPage
	}
	return nil
}

// check compares the sums, and looks again at what the last scan found. It leaves
// Compare to be done again where something is off, or could not be compared.
func (k *Keeper) check(ctx context.Context) error {
	if !k.released {
		return nil
	}
	d, err := k.measure(ctx, slices.Collect(maps.Keys(k.orders)), slices.Collect(maps.Keys(k.buyers)))
	if err != nil || !d.known {
		return err
	}
	k.count.Compared.Add(1)
	k.orders, k.buyers = d.orders, d.buyers
	symptom := d.symptom()
	d.Off = symptom != ""
	k.balance.Store(&d.Balance)
	if symptom != k.symptom {
		k.symptom, k.times = symptom, 0
	}
	if symptom == "" {
		k.todo &^= Compare
		return nil
	}
	if k.times++; k.times < confirmations {
		k.log.Debug("drift", "sku", k.sku, "symptom", symptom, "drift", d.Drift, "times", k.times)
		return nil
	}
	k.drifted = &d
	k.todo |= Rebuild
	return nil
}

// forget is called when a gate has been rebuilt. By then all ended orders are marked
// released. The findings about the old gate no longer matter and are dropped.
func (k *Keeper) forget(stock inventory.View) {
	if d := k.drifted; d != nil {
		k.count.Repaired.Add(1)
		k.log.Warn("drift repaired", "sku", k.sku, "symptom", d.symptom(), "drift", d.Drift,
			"orders_off", len(d.orders), "buyers_off", len(d.buyers),
			"available_before", d.gate.Available, "available", stock.Available,
			"holds_before", d.gate.Holds, "holds", stock.Holds)
	}
	k.released = true
	k.drifted, k.symptom, k.times, k.orders, k.buyers, k.scan = nil, "", 0, nil, nil, nil
	k.todo &^= Rebuild | Compare | ScanPage
}

// differences of the gate from the database.
type drift struct {
	known bool // false: they could not be compared just now
	gate  inventory.View
	Balance
	orders map[string]bool // ids, of those asked for
	buyers map[string]bool
}

func (d *drift) symptom() string {
	switch {
	case d.Drift > 0:
		return unitsMissing
	case d.Drift < 0:
		return unitsTooMany
	case d.gate.Queued != int64(len(d.gate.Orders)):
		return queueMiscount
	case len(d.orders)+len(d.buyers) > 0:
		return ordersDiffer
	}
	return ""
}

// measure compares the sums, and these orders and buyers. What it finds is
// so: the caller is between two steps of a keeper's pass. The order of reading
// matters: the gate at one instant, then the rows, then the fence.
func (k *Keeper) measure(ctx context.Context, ids, names []string) (d drift, err error) {
	if d.gate, err = k.gate.Tally(ctx, k.sku, ids, names); err != nil {
		return d, err
	}
	if !d.gate.Open || d.gate.Long {
		return d, nil
	}
	if len(ids) > 0 {
		rows, err := k.store.Behind(ctx, ids)
		if err != nil {
			return d, err
		}
		d.orders = ordersOff(d.gate, rows)
	}
	if len(names) > 0 {
		rows, err := k.store.Counting(ctx, k.sku, names)
		if err != nil {
			return d, err
		}
		d.buyers = buyersOff(d.gate, rows)
	}
	sums, err := k.store.Sums(ctx, k.sku)
	if err != nil {
		return d, err
	}
	if sums.Fence != k.fence {
		return d, orders.ErrFenced
	}
	if sums.Epoch != d.gate.Epoch {
		k.todo |= Inspect // a rebuild has been asked for
		return d, nil
	}
	// One statement about two stores, and exact: see above.
	d.Balance = Balance{
		Total: d.gate.Terms.Total, Available: d.gate.Available, Queued: d.gate.QueuedUnits(),
		Sold: sums.Sold, Restoring: sums.Restoring, At: time.Now(),
	}
	d.Drift = d.Total - d.Available - d.Queued - d.Sold - d.Restoring
	d.known = true
	return d, nil
}

// ordersOff returns those of the orders asked for that hold units and should
// not, or should and do not. An order whose end is not yet marked may or may
// not hold units: the keeper is about to see to it.
func ordersOff(gate inventory.View, behind map[string]*orders.Order) map[string]bool {
	queued := make(map[string]bool, len(gate.Orders))
	for _, q := range gate.Orders {
		queued[q.OrderID] = true
	}
	off := map[string]bool{}
	for id, held := range gate.Held {
		row := behind[id]
		switch {
		case !held && row != nil && row.Status == orders.PendingPayment: // it was pending when the gate was read, as it still is
			off[id] = true
		case held && !queued[id] && (row == nil || row.RestoredAt != nil):
			off[id] = true
		}
	}
	return off
}

// buyersOff returns those of the buyers asked for whose count at the gate is
// not what their orders make: rows, and what they have in the queue.
func buyersOff(gate inventory.View, rows []orders.Order) map[string]bool {
	units := make(map[string]int64, len(gate.Units))
	for _, q := range gate.Orders {
		units[q.Buyer] += q.Quantity
	}
	for i := range rows {
		units[rows[i].Buyer] += rows[i].Quantity
	}
	off := map[string]bool{}
	for buyer, counted := range gate.Units {
		if counted != units[buyer] {
			off[buyer] = true
		}
	}
	return off
}

// A Balance is the law of conservation as the keeper of a sale found it when it
// last compared the stores, between two of its steps: exact, however busy the
// sale was (reconcile.go). Units.
type Balance struct {
	Total     int64     `json:"total"`
	Available int64     `json:"available"` // at the gate
	Queued    int64     `json:"queued"`    // let in by the gate and not yet rows
	Sold      int64     `json:"sold"`      // of open and paid rows
	Restoring int64     `json:"restoring"` // of closed rows that the gate has not been told of
	Drift     int64     `json:"drift"`     // what nobody can account for; below 0 units that there are not
	At        time.Time `json:"-"`

	Off bool `json:"-"` // they differ, maybe not in sum
}

// Balance is what the last comparison found, or nil.
func (k *Keeper) Balance() *Balance { return k.balance.Load() }
