package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"flashsale/inventory"
	"flashsale/orders/lock"
)

// A keeper is this node's hold of one SKU. While it lasts, nobody else carries
// anything of the SKU between Redis and MySQL. It is not a goroutine: a worker
// runs a pass of it whenever there is something to do (see keepers.go).
//
// Every step can be repeated, and dying between two of them changes nothing:
// the next keeper repeats the step.
type keeper struct {
	sku      string
	held     *lock.Lock
	fence    int64
	store    *Store
	together *convoy
	gate     Gate
	batch    int // orders per transaction
	log      *slog.Logger
	tell     func(ctx context.Context, verdicts []verdict)
	count    *Counters

	committed func(*Commit)

	// What a pass looks at beside the queue, set by whoever has reason to.
	ended   atomic.Bool // orders have been closed or paid
	inspect atomic.Bool // the gate, or the sale's terms, may not be as they should

	attempt int64 // to rebuild the gate

	reconciler
}

// pass is one turn of the loop. It returns true while there is more to do.
// The context is the lock's: it ends, with its cause, before another node
// could hold the lock.
func (k *keeper) pass(ctx context.Context) (more bool, err error) {
	n, err := k.drain(ctx)
	if err != nil {
		return false, err
	}
	// The gate calls only when an order comes into an empty queue, and one may
	// have come while these were still in it: look until there is none.
	more = n > 0
	var failed error
	if k.ended.Swap(false) {
		n, err := k.restore(ctx)
		if err != nil || n == k.batch {
			k.ended.Store(true)
			more = true
		}
		if err != nil || n < k.batch {
			k.marked = err == nil
		}
		switch {
		case err == nil:
		case errors.Is(err, inventory.ErrEpoch), errors.Is(err, inventory.ErrNoGate):
			k.inspect.Store(true) // the rebuild will have these orders in it
		case errors.Is(err, ErrFenced), errors.Is(err, inventory.ErrFenced):
			return false, err
		default: // whatever it is, it must not keep the gate from being rebuilt
			k.inspect.Store(true)
			failed = err
		}
	}
	if k.inspect.Swap(false) {
		if err := k.compare(ctx); err != nil {
			k.inspect.Store(true)
			return false, errors.Join(failed, err)
		}
	}
	if failed != nil {
		return more, failed
	}
	err = k.reconcile(ctx)
	return more || k.inspect.Load(), err
}

// batchesInTurn is how many batches a pass carries over before another SKU has
// its turn.
const batchesInTurn = 8

// drain is step 1, queue to MySQL: batch after batch, until the queue is empty
// or the turn is over. While one is committed, the one before it is taken off
// the queue: nobody waits for that, and a turn is a third shorter. What was not
// taken off is read again by the next pass, and its orders are then found in the
// database.
func (k *keeper) drain(ctx context.Context) (drained int, err error) {
	settled := make(chan error, 1)
	settled <- nil
	defer func() { err = errors.Join(err, <-settled) }()
	after := ""
	for range batchesInTurn {
		batch, err := k.gate.Queue(ctx, k.sku, after, int64(k.batch))
		if err != nil || len(batch) == 0 {
			return drained, err
		}
		verdicts, err := k.commit(ctx, batch)
		if err != nil {
			return drained, err
		}
		// Durable: the callers need not wait for the queue to be tidied.
		k.tell(ctx, verdicts)
		if err := <-settled; err != nil {
			settled <- err
			return drained, nil
		}
		go func() { settled <- k.settle(ctx, verdicts) }()
		drained += len(batch)
		after = batch[len(batch)-1].Entry
	}
	return drained, nil
}

// commit carries a batch over, order by order if it has to be.
func (k *keeper) commit(ctx context.Context, orders []inventory.Queued) ([]verdict, error) {
	began := time.Now()
	verdicts, err := k.together.commit(ctx, batch{k.sku, k.fence, orders})
	if isBadData(err) {
		verdicts, err = k.commitEach(ctx, orders)
	}
	k.committed(&Commit{SKU: k.sku, Fence: k.fence, Orders: orders, Began: began, Took: time.Since(began), Err: err})
	for _, v := range verdicts {
		if v.unrestore || v.late || v.insert && v.order.Status == Rejected {
			k.ended.Store(true) // the gate hears of its end by step 2
		}
		if v.giveBack {
			k.ended.Store(true) // it may be one whose end is not marked
			k.marked = false
		}
	}
	return verdicts, err
}

// settle takes judged orders off the queue.
func (k *keeper) settle(ctx context.Context, verdicts []verdict) error {
	settled := make([]inventory.Settled, len(verdicts))
	for i, v := range verdicts {
		settled[i] = inventory.Settled{Entry: v.queued.Entry, OrderID: v.queued.OrderID, GiveBack: v.giveBack}
	}
	if err := k.gate.Settle(ctx, k.sku, k.fence, settled); err != nil {
		return err
	}
	k.count.drained(len(verdicts))
	return nil
}

// commitEach carries orders over one by one, when the database refuses
// something in the batch: one bad order must not stop the SKU. Its units go
// back, and its caller hears that nothing was sold.
func (k *keeper) commitEach(ctx context.Context, batch []inventory.Queued) ([]verdict, error) {
	var verdicts []verdict
	for _, q := range batch {
		one, err := k.store.Commit(ctx, k.sku, k.fence, []inventory.Queued{q})
		if isBadData(err) {
			k.log.Error("order refused by the database", "sku", k.sku, "order", q.OrderID, "error", err)
			one, err = []verdict{{queued: q, giveBack: true, refused: "unavailable"}}, nil
		}
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, one...)
	}
	return verdicts, nil
}

// restore is step 2, ended orders to the gate: one batch. A refused release
// leads to no mark.
func (k *keeper) restore(ctx context.Context) (int, error) {
	rows, err := k.store.Ended(ctx, k.sku, k.batch)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	mandate := inventory.Mandate{Fence: k.fence, Epoch: rows[0].Epoch}
	var all, closed, paid []string
	for _, r := range rows {
		all = append(all, r.ID)
		if r.Status == Paid {
			paid = append(paid, r.ID)
			if r.HoldID != nil { // the order's first hold is gone, unless Redis has gone back
				paid = append(paid, *r.HoldID)
			}
		} else {
			closed = append(closed, r.ID)
		}
	}
	if len(closed) > 0 {
		units, err := k.gate.Release(ctx, k.sku, mandate, closed)
		if err != nil {
			return 0, err
		}
		k.count.restored(units)
	}
	for holds := range slices.Chunk(paid, k.batch) {
		if err := k.gate.Confirm(ctx, k.sku, mandate, holds); err != nil {
			return 0, err
		}
	}
	return len(rows), k.store.MarkRestored(ctx, k.sku, k.fence, all)
}

// compare is step 3, with reconcile.go: brings changed terms to the gate, and
// rebuilds a gate that is missing, shut, or of another epoch than the database's.
func (k *keeper) compare(ctx context.Context) error {
	sale, err := k.store.Sale(ctx, k.sku)
	if err != nil {
		return err
	}
	glances, err := k.gate.Glance(ctx, k.sku)
	if err != nil {
		return err
	}
	switch g := glances[0]; {
	case !g.Open || g.Epoch != sale.Epoch:
		_, err := k.rebuild(ctx)
		return err
	case !g.Terms.Equal(sale.Terms()):
		mandate := inventory.Mandate{Fence: k.fence, Epoch: g.Epoch}
		return k.gate.SetTerms(ctx, k.sku, mandate, sale.Terms())
	}
	return nil
}

// rebuildAttempts bounds how often a rebuild starts over in one pass.
const rebuildAttempts = 5

// rebuild makes the gate anew from the database. Where the last step finds the
// gate not as it was left, all of it starts over. It returns what the gate was
// opened with.
func (k *keeper) rebuild(ctx context.Context) (inventory.Stock, error) {
	for range rebuildAttempts {
		k.attempt++
		d := &inventory.Draft{SKU: k.sku, Fence: k.fence, Attempt: k.attempt}
		stock, opened, err := k.rebuildOnce(ctx, d)
		if opened {
			k.forget()
			return stock, nil
		}
		if err != nil {
			// If Redis is away too, the draft goes by itself.
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
			_ = k.gate.Discard(within, d)
			cancel()
			return inventory.Stock{}, err
		}
	}
	return inventory.Stock{}, fmt.Errorf("rebuild gate of %s: not left shut in %d attempts", k.sku, rebuildAttempts)
}

// discardTimeout is for a keeper that may have lost its lock already.
const discardTimeout = 500 * time.Millisecond

// fewChanges is how many changes are left to be read while the gate is shut. A
// busy sale has as many again while they are caught up with: catchUps is how
// often that is tried.
const (
	fewChanges = 1000
	catchUps   = 3
)

// stage puts aside what the database says, while buyers still come in: orders
// are carried over all the time.
func (k *keeper) stage(ctx context.Context, d *inventory.Draft) (*census, error) {
	c := newCensus(k.sku)
	behind := false // a single page has no time to fall behind
	for {
		page, more, err := k.store.TakeCensus(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := k.gate.Stage(ctx, d, page); err != nil {
			return nil, err
		}
		if !more {
			break
		}
		behind = true
		if _, err := k.drain(ctx); err != nil {
			return nil, err
		}
	}
	for i := 0; behind && i < catchUps; i++ {
		changes, err := k.store.CatchUp(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := k.gate.Stage(ctx, d, changes); err != nil {
			return nil, err
		}
		if _, err := k.drain(ctx); err != nil {
			return nil, err
		}
		behind = len(changes.Holds)+len(changes.Ended) >= fewChanges
	}
	return c, nil
}

// rebuildOnce is a rebuild: stage what the database says, then shut, drain,
// recount under a new epoch, bring what is staged up to date, install and open.
// All that grows with the sale comes before shutting.
func (k *keeper) rebuildOnce(ctx context.Context, d *inventory.Draft) (stock inventory.Stock, opened bool, err error) {
	c, err := k.stage(ctx, d)
	if err != nil {
		return stock, false, err
	}
	glances, err := k.gate.Glance(ctx, k.sku)
	if err != nil {
		return stock, false, err
	}
	was := glances[0]
	if err := k.gate.Shut(ctx, k.sku, inventory.Mandate{Fence: k.fence, Epoch: was.Epoch}); err != nil {
		return stock, false, err
	}
	for n := 1; n > 0; {
		if n, err = k.drain(ctx); err != nil {
			return stock, false, err
		}
	}
	r, err := k.store.Recount(ctx, c, k.fence, was.Epoch)
	if err != nil {
		return stock, false, err
	}
	if r.direct {
		k.count.DirectLeft.Add(1)
		k.log.Info("no longer selling the direct way", "sku", k.sku)
	}
	if err := k.gate.Stage(ctx, d, r.changes); err != nil {
		return stock, false, err
	}
	opened, err = k.gate.Install(ctx, d, r.epoch, r.stock)
	if opened {
		k.count.rebuilt()
		k.log.Info("gate built", "sku", k.sku, "epoch", r.epoch, "fence", k.fence, "existed", was.Exists,
			"available_before", was.Available, "available", r.stock.Available, "holds", r.stock.Holds)
	}
	return r.stock, opened, err
}
