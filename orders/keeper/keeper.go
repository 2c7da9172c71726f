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

// Work is what a pass does beside draining the queue, which it always does.
type Work uint8

// The kinds of work.
const (
	Drain    Work = 1 << iota // orders are queued
	Release                   // orders were closed or paid: release their units at the gate
	Inspect                   // the gate or the sale's terms may have changed
	Rebuild                   // the gate differs from the database
	Forget                    // the sale is over: delete it from Redis
	Compare                   // the sums of both stores, and what the last scan found
	Scan                      // begin to compare order by order
	ScanPage                  // continue to compare order by order
)

// Later is work that must not slow a sale down: resync schedules it.
const Later = Compare | Scan | ScanPage

// A Keeper is this node's hold of one SKU. While it lasts, nobody else carries
// anything of the SKU between Redis and MySQL. It is not a goroutine: a worker
// runs a pass of it whenever there is something to do (package controller).
//
// Every step can be repeated, and dying between two of them changes nothing:
// the next keeper repeats the step.
type Keeper struct {
	sku     string
	fence   int64
	store   *store.Store
	commits *GroupCommit
	gate    Gate
	batch   int   // orders per transaction
	rounds  int64 // of resync, in which a scan should end
	log     *slog.Logger
	count   *Counters

	announce  func(ctx context.Context, sku string, epoch int64) (now bool, err error)
	tell      func(ctx context.Context, decisions []orders.Decision)
	committed func(*Commit)

	progressed atomic.Pointer[time.Time] // the last sign of life

	todo    Work  // what the pass under way has left to do
	attempt int64 // to rebuild the gate

	reconciler
}

// Fence is what this keeper's writes to the database are conditional on.
func (k *Keeper) Fence() int64 { return k.fence }

// Progressed is when the keeper last gave a sign of life: a commit, a write to the
// gate that was answered, a stated step of a rebuild.
func (k *Keeper) Progressed() time.Time { return *k.progressed.Load() }

// Pass does its steps in this order: drain the queue, release what has ended,
// inspect the gate, compare the stores. It returns the work that is left, with
// what it found to be done. A pass is not for two goroutines at once.
//
// The context is the lock's: it ends, with its cause, before another node could
// hold the lock. An error ends the pass; after orders.ErrFenced another keeper
// goes on.
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
	if k.todo &^= Drain; !empty {
		k.todo |= Drain
	}
	var failed error
	if k.todo&Release != 0 {
		if failed = k.release(ctx); errors.Is(failed, orders.ErrFenced) {
			return failed
		}
	}
	if k.todo&(Inspect|Rebuild|Forget) != 0 {
		if err := k.inspect(ctx); err != nil {
			return errors.Join(failed, err)
		}
		k.todo &^= Inspect | Rebuild | Forget
	}
	if failed != nil {
		return failed
	}
	return k.reconcile(ctx)
}

// release tells the gate of ended orders. Whatever it fails with, it must not keep
// the gate from being rebuilt.
func (k *Keeper) release(ctx context.Context) error {
	n, err := k.releaseBatch(ctx)
	switch {
	case err != nil:
		k.released = false
		k.todo |= Inspect
	case n < k.batch:
		k.released = true
		k.todo &^= Release
	}
	if errors.Is(err, inventory.ErrEpoch) || errors.Is(err, inventory.ErrNoGate) {
		return nil // the rebuild will have these orders in it
	}
	return err
}

// batchesInTurn is how many batches a pass carries over before another SKU has
// its turn.
const batchesInTurn = 8

// fewOrders is a batch after which there is most likely no other.
const fewOrders = 16

// drain moves orders from the queue to MySQL: batch after batch, until the queue is empty
// or the turn is over. While one is committed, the one before it is taken off
// the queue: nobody waits for that, and a turn is a third shorter. What was not
// taken off is read again by the next pass, and its orders are then found in the
// database.
//
// The gate calls only when an order comes into an empty queue, and one may come while
// others are still in it. So an empty read is not enough: the queue counts as empty when
// nothing was left after the last order was taken off.
func (k *Keeper) drain(ctx context.Context) (empty bool, err error) {
	acking := make(chan acked, 1)
	acking <- acked{}
	defer func() { err = errors.Join(err, (<-acking).err) }()
	after := ""
	for range batchesInTurn {
		batch, err := k.gate.Queue(ctx, k.sku, after, int64(k.batch))
		if err != nil {
			return false, err
		}
		if len(batch) > 0 {
			decisions, err := k.commit(ctx, batch)
			if errors.Is(err, inventory.ErrEpoch) {
				return true, k.refuseOld(ctx, batch)
			}
			if err != nil {
				return false, err
			}
			// Durable: the callers need not wait for the queue to be tidied.
			k.tell(ctx, decisions)
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

// releaseBatch tells the gate of one batch of ended orders, and then marks them in
// the database. If the gate refuses, nothing is marked.
func (k *Keeper) releaseBatch(ctx context.Context) (int, error) {
	rows, err := k.store.Unreleased(ctx, k.sku, k.batch)
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
		if r.HoldID != nil { // the order's first hold is gone, unless Redis has gone back
			paid = append(paid, *r.HoldID)
		}
	}
	if len(closed) > 0 {
		units, err := k.gate.Release(ctx, k.sku, epoch, closed)
		if err != nil {
			return 0, err
		}
		k.progress()
		k.count.Released.Add(units)
	}
	for holds := range slices.Chunk(paid, k.batch) {
		if err := k.gate.Confirm(ctx, k.sku, epoch, holds); err != nil {
			return 0, err
		}
		k.progress()
	}
	return len(rows), k.store.MarkReleased(ctx, k.sku, k.fence, all)
}

// progress takes note of a sign of life.
func (k *Keeper) progress() {
	now := time.Now()
	k.progressed.Store(&now)
}
