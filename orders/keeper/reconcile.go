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

// A reconciler compares the gate with the database and finds drift. Only a store that has
// lost or invented data causes drift.
//
// A comparison runs between two steps of the keeper, so the keeper is not moving any units
// from one store to the other. Buyers move units within Redis, from available to queued.
// Closing an order moves units within MySQL, from sold to restoring. Therefore
//
//	total = available + queued + sold + restoring
//
// holds exactly, even in a busy sale. The comparison reads the gate first and the fence last,
// so it notices a takeover. It uses the gate's total, because a changed total may not have
// reached the gate yet.
type reconciler struct {
	// releasesMarked is true when restored_at is set for every order that the gate has released.
	// Without restored_at, the units of a released order would count as available and as
	// restoring.
	releasesMarked bool

	scan   *scan           // nil if no scan is running
	orders map[string]bool // orders that the last scan found wrong, and that still are
	buyers map[string]bool

	drifted   *drift // the drift that the next rebuild repairs, or nil
	symptom   string // symptom of the last comparison, or ""
	sightings int    // number of consecutive comparisons with the symptom

	balance atomic.Pointer[Balance] // result of the last comparison, for readers in other goroutines
}

// sightingsToRebuild is the number of consecutive comparisons that must find the same symptom
// before the gate is rebuilt. A rebuild turns buyers away for a moment, so a symptom that
// disappears by itself must not cause one. During a failover, the first comparison may read
// the old primary. The second may read the new primary before the keeper has drained the
// queue that came back with it. The third finds the new primary drained.
const sightingsToRebuild = 3

// The symptoms of drift.
const (
	unitsMissing  = "units missing"    // the gate sells fewer units than the database has left
	unitsTooMany  = "units too many"   // the gate sells more units than the database has left
	queueMiscount = "queue miscounted" // the gate may refuse orders although the queue is not full
	ordersDiffer  = "orders differ"    // a hold without an open order, an open order without a hold, or a wrong count of a buyer
)

// reconcile is the part of a pass that compares the stores. A scan compares a few pages in
// each resync, because comparing 100,000 orders at once would slow the sale down.
func (k *Keeper) reconcile(ctx context.Context) error {
	if k.todo&CompareSums != 0 {
		if err := k.check(ctx); err != nil {
			return err
		}
	}
	if k.todo&StartScan != 0 && k.scan == nil && len(k.orders)+len(k.buyers) == 0 {
		k.scan = newScan()
	}
	k.todo &^= StartScan
	if !k.releasesMarked {
		k.todo |= CompareSums // the comparison waits for the release
	} else if k.todo&ContinueScan != 0 {
		if err := k.scanPages(ctx); err != nil {
			return err
		}
	}
	if k.todo &^= ContinueScan; k.scan != nil {
		k.todo |= ContinueScan
	}
	return nil
}

// check compares the sums, and the orders and buyers that the last scan found wrong. If it
// finds drift or cannot compare the stores, it leaves CompareSums in k.todo.
func (k *Keeper) check(ctx context.Context) error {
	if !k.releasesMarked {
		return nil
	}
	d, err := k.measure(ctx, slices.Collect(maps.Keys(k.orders)), slices.Collect(maps.Keys(k.buyers)))
	if err != nil || !d.compared {
		return err
	}
	k.counters.Compared.Add(1)
	k.orders, k.buyers = d.orders, d.buyers
	symptom := d.symptom()
	d.Differs = symptom != ""
	k.balance.Store(&d.Balance)
	if symptom != k.symptom {
		k.symptom, k.sightings = symptom, 0
	}
	if symptom == "" {
		k.todo &^= CompareSums
		return nil
	}
	if k.sightings++; k.sightings < sightingsToRebuild {
		k.log.Debug("gate differs from the database: the gate is rebuilt if the next comparisons find the same symptom", "sku", k.sku, "symptom", symptom, "drift", d.Drift, "comparisons", k.sightings)
		return nil
	}
	k.drifted = &d
	k.todo |= RebuildGate
	return nil
}

// reset drops the findings about the old gate, after the gate was rebuilt. At that time all
// ended orders are marked released, because BeginEpoch marks them.
func (k *Keeper) reset(newGate inventory.View) {
	if d := k.drifted; d != nil {
		k.counters.Repaired.Add(1)
		k.log.Warn("drift repaired", "sku", k.sku, "symptom", d.symptom(), "drift", d.Drift,
			"orders_off", len(d.orders), "buyers_off", len(d.buyers),
			"available_before", d.gate.Available, "available", newGate.Available,
			"holds_before", d.gate.Holds, "holds", newGate.Holds)
	}
	k.releasesMarked = true
	k.drifted, k.symptom, k.sightings, k.orders, k.buyers, k.scan = nil, "", 0, nil, nil, nil
	k.todo &^= RebuildGate | CompareSums | ContinueScan
}

// A drift describes the differences between the gate and the database.
type drift struct {
	compared bool // false if the stores could not be compared
	gate     inventory.View
	Balance
	orders map[string]bool // ids of the wrong orders, among the given orders
	buyers map[string]bool
}

func (d *drift) symptom() string {
	switch {
	case d.Drift > 0:
		return unitsMissing
	case d.Drift < 0:
		return unitsTooMany
	case d.gate.QueuedOrders != int64(len(d.gate.Orders)):
		return queueMiscount
	case len(d.orders)+len(d.buyers) > 0:
		return ordersDiffer
	}
	return ""
}

// measure compares the sums, the given orders and the given buyers. It must run between two
// steps of the keeper. It reads the gate at one instant, then the rows, and the fence last: if
// another keeper has taken over since the first read, measure returns ErrFenced.
func (k *Keeper) measure(ctx context.Context, ids, names []string) (d drift, err error) {
	if d.gate, err = k.gate.Tally(ctx, k.sku, ids, names); err != nil {
		return d, err
	}
	if !d.gate.Open || d.gate.QueueTooLong {
		return d, nil
	}
	if len(ids) > 0 {
		rows, err := k.store.OrdersByHold(ctx, ids)
		if err != nil {
			return d, err
		}
		d.orders = wrongOrders(d.gate, rows)
	}
	if len(names) > 0 {
		rows, err := k.store.OrdersAtGate(ctx, k.sku, names)
		if err != nil {
			return d, err
		}
		d.buyers = wrongBuyers(d.gate, rows)
	}
	sums, err := k.store.Sums(ctx, k.sku)
	if err != nil {
		return d, err
	}
	if sums.Fence != k.fence {
		return d, orders.ErrFenced
	}
	if sums.Epoch != d.gate.Epoch {
		k.todo |= CorrectGate // the gate has to be rebuilt
		return d, nil
	}
	// The two reads together are exact (see reconciler).
	d.Balance = Balance{
		Total: d.gate.Terms.Total, Available: d.gate.Available, Queued: d.gate.QueuedUnits(),
		Sold: sums.Sold, Restoring: sums.Unreleased, ComparedAt: time.Now(),
	}
	d.Drift = d.Total - d.Available - d.Queued - d.Sold - d.Restoring
	d.compared = true
	return d, nil
}

// wrongOrders returns the given orders whose hold contradicts the database: a pending order
// without a hold, or a hold of a released or unknown order. An ended order that is not marked
// released may or may not have a hold, because the keeper is about to release it.
func wrongOrders(gate inventory.View, byHold map[string]*orders.Order) map[string]bool {
	queued := make(map[string]bool, len(gate.Orders))
	for _, q := range gate.Orders {
		queued[q.OrderID] = true
	}
	wrong := map[string]bool{}
	for id, held := range gate.HasHold {
		row := byHold[id]
		switch {
		case !held && row != nil && row.Status == orders.PendingPayment:
			// The gate was read first, and an existing row never becomes pending again: the
			// order was pending then, and must have had a hold.
			wrong[id] = true
		case held && !queued[id] && (row == nil || row.RestoredAt != nil):
			wrong[id] = true
		}
	}
	return wrong
}

// wrongBuyers returns the given buyers whose units at the gate differ from the units of their
// rows and queued orders.
func wrongBuyers(gate inventory.View, rows []orders.Order) map[string]bool {
	units := make(map[string]int64, len(gate.Units))
	for _, q := range gate.Orders {
		units[q.Buyer] += q.Quantity
	}
	for i := range rows {
		units[rows[i].Buyer] += rows[i].Quantity
	}
	wrong := map[string]bool{}
	for buyer, counted := range gate.Units {
		if counted != units[buyer] {
			wrong[buyer] = true
		}
	}
	return wrong
}

// A Balance is the distribution of a sale's units at the keeper's last comparison. It is exact,
// even if the sale was busy (see reconciler).
type Balance struct {
	Total      int64     `json:"total"`
	Available  int64     `json:"available"` // units on sale at the gate
	Queued     int64     `json:"queued"`    // units of queued orders that have no row yet
	Sold       int64     `json:"sold"`      // units of open and paid orders
	Restoring  int64     `json:"restoring"` // units of closed orders that the gate has not released yet
	Drift      int64     `json:"drift"`     // units that are missing, or, if negative, units that exist twice
	ComparedAt time.Time `json:"-"`

	Differs bool `json:"-"` // whether the stores differ, possibly with equal sums
}

// Balance returns the result of the last comparison, or nil.
func (k *Keeper) Balance() *Balance { return k.balance.Load() }
