package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// Work is a set of things that a pass does. Every pass also drains the queue.
type Work uint8

// The kinds of work.
const (
	DrainQueue   Work = 1 << iota // commit the orders in the queue
	ReleaseHolds                  // release the units of closed orders and drop the holds of paid ones
	CorrectGate                   // compare the gate's state and terms with the sale's row
	RebuildGate                   // rebuild the gate, because it differs from the database
	DeleteGate                    // delete the gate, because the sale is over
	CompareSums                   // compare the sums of both stores and check the findings of the last scan
	StartScan                     // start a comparison order by order
	ContinueScan                  // continue the comparison order by order
)

// Later is the work that must not slow a sale down. A resync schedules it.
const Later = CompareSums | StartScan | ContinueScan

// A Keeper carries one SKU's orders from Redis to MySQL, and closed orders and changed terms
// from MySQL to Redis. While its fence is current, no other keeper of the SKU can write to
// MySQL. A keeper has no goroutine: package controller calls Pass when there is work.
//
// Every step can be repeated. If a keeper dies between two steps, the next keeper repeats
// the step.
type Keeper struct {
	sku        string
	fence      int64
	store      *store.Store
	commits    *GroupCommit
	gate       Gate
	batch      int   // orders per transaction
	scanPasses int64 // number of passes with ContinueScan that a scan should take
	log        *slog.Logger
	counters   *Counters

	announce  func(ctx context.Context, sku string, epoch int64) (now bool, err error)
	notify    func(ctx context.Context, decisions []orders.Decision)
	committed func(*Commit)

	progressed atomic.Pointer[time.Time] // time of the last progress

	todo    Work  // work left for the current pass
	attempt int64 // number of the current rebuild

	reconciler
}

// Fence returns the fence that every database write of this keeper is conditional on.
func (k *Keeper) Fence() int64 { return k.fence }

// LastProgress returns the time of the keeper's last progress. A commit, an answered write to
// the gate and a step of a rebuild are progress.
func (k *Keeper) LastProgress() time.Time { return *k.progressed.Load() }

// Pass drains the queue and then does the other work of todo in this order: release,
// correctGate, reconcile. It returns the work that is left, including work that the pass discovered. Pass
// must not be called concurrently.
//
// The context is that of the SKU's lock. It is cancelled, with a cause, before another node
// can acquire the lock. An error ends the pass. After orders.ErrFenced, another keeper has
// the SKU.
func (k *Keeper) Pass(ctx context.Context, todo Work) (left Work, err error) {
	k.todo = todo
	err = k.pass(ctx)
	return k.todo, err
}

func (k *Keeper) pass(ctx context.Context) error {
	empty, err := k.drain(ctx)
	if err != nil {
		return err
	}
	if k.todo &^= DrainQueue; !empty {
		k.todo |= DrainQueue
	}
	var failed error
	if k.todo&ReleaseHolds != 0 {
		if failed = k.release(ctx); errors.Is(failed, orders.ErrFenced) {
			return failed
		}
	}
	if k.todo&(CorrectGate|RebuildGate|DeleteGate) != 0 {
		if err := k.correctGate(ctx); err != nil {
			return errors.Join(failed, err)
		}
		k.todo &^= CorrectGate | RebuildGate | DeleteGate
	}
	if failed != nil {
		return failed
	}
	return k.reconcile(ctx)
}

// release runs releaseBatch. If that fails, release asks for CorrectGate, because a gate
// that refuses a release may have to be rebuilt.
func (k *Keeper) release(ctx context.Context) error {
	n, err := k.releaseBatch(ctx)
	switch {
	case err != nil:
		k.releasesMarked = false
		k.todo |= CorrectGate
	case n < k.batch:
		k.releasesMarked = true
		k.todo &^= ReleaseHolds
	}
	if errors.Is(err, inventory.ErrEpoch) || errors.Is(err, inventory.ErrNoGate) {
		return nil // the rebuild marks these orders released
	}
	return err
}

// batchesInTurn is the maximum number of batches in a pass, after which other SKUs have their
// turn.
const batchesInTurn = 8

// fewOrders is the size below which a batch most likely was the last one in the queue.
const fewOrders = 16

// drain commits queued orders, batch after batch, until the queue is empty or batchesInTurn
// batches are committed. It reports whether the queue is empty. While it commits a batch, it
// removes the previous batch from the queue, which makes a pass a third shorter. If a removal
// fails, the next pass reads the entries again and finds their orders in the database.
//
// The gate wakes the keeper only when an order enters an empty queue. An order that arrives after
// the last read, but before the last batch is removed, wakes no keeper, because the queue is not
// empty yet. So drain reports an empty queue only if the last removal left no entry.
func (k *Keeper) drain(ctx context.Context) (empty bool, err error) {
	acking := make(chan acked, 1)
	acking <- acked{}
	defer func() { err = errors.Join(err, (<-acking).err) }()
	after := ""
	for range batchesInTurn {
		batch, err := k.gate.ReadQueue(ctx, k.sku, after, int64(k.batch))
		if err != nil {
			return false, err
		}
		if len(batch) > 0 {
			decisions, err := k.commit(ctx, batch)
			if errors.Is(err, inventory.ErrEpoch) {
				// No order of this queue can be committed, so no further pass has to drain it.
				return true, k.refuseOld(ctx, batch)
			}
			if err != nil {
				return false, err
			}
			// The orders are durable, so callers need not wait for the removal.
			k.notify(ctx, decisions)
			if last := <-acking; last.err != nil {
				acking <- last
				return false, nil
			}
			go func() { acking <- k.ack(ctx, batch, decisions) }()
			after = batch[len(batch)-1].Entry
		}
		if len(batch) < fewOrders {
			last := <-acking
			acking <- last
			if len(batch) == 0 || last.left == 0 || last.err != nil {
				return last == (acked{}), nil
			}
		}
	}
	return false, nil
}

// releaseBatch releases one batch of ended orders at the gate, and then marks them released
// in the database. If the gate refuses, no order is marked.
func (k *Keeper) releaseBatch(ctx context.Context) (int, error) {
	rows, err := k.store.UnreleasedOrders(ctx, k.sku, k.batch)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	epoch := rows[0].Epoch
	var all, closed, paid []string
	for _, r := range rows {
		all = append(all, r.ID)
		if r.Status.Closed() {
			closed = append(closed, r.ID)
			continue
		}
		paid = append(paid, r.ID)
		if r.HoldID != nil { // the payment took units: the first hold exists only if Redis lost its release
			paid = append(paid, *r.HoldID)
		}
	}
	if len(closed) > 0 {
		units, err := k.gate.ReleaseHolds(ctx, k.sku, epoch, closed)
		if err != nil {
			return 0, err
		}
		k.progress()
		k.counters.Released.Add(units)
	}
	for holds := range slices.Chunk(paid, k.batch) {
		if err := k.gate.DropHolds(ctx, k.sku, epoch, holds); err != nil {
			return 0, err
		}
		k.progress()
	}
	return len(rows), k.store.MarkOrdersReleased(ctx, k.sku, k.fence, all)
}

// progress records that the keeper has made progress.
func (k *Keeper) progress() {
	now := time.Now()
	k.progressed.Store(&now)
}
