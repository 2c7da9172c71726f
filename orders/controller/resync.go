package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// resync looks after all SKUs of this node with one pipeline and one query,
// and wakes the keepers that have something to do: everything that a lost
// message could have told them.
func (c *Controller) resync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.store.Timeout)
	defer cancel()
	// First: a queue that grows because the database is away is to be seen.
	skus := c.Kept()
	summaries, away := c.gate.Summaries(ctx, skus...)
	if away == nil {
		away = c.lookAtQueues(ctx, skus, summaries)
	}
	ended, err := c.store.EndedSKUs(ctx)
	if err != nil {
		return errors.Join(away, err)
	}
	for _, sku := range ended {
		c.wake(sku, keeper.Release)
	}
	if away != nil {
		return away
	}
	c.scans = 0
	_, now, err := c.catalog.Sales(ctx)
	if err != nil {
		return err
	}
	for i, sku := range skus {
		c.schedule(sku, summaries[i], time.Now())
		sale, err := c.catalog.Sale(ctx, sku)
		if err != nil {
			continue
		}
		switch g := summaries[i]; {
		case g.Queued == 0 && now.After(sale.LastOrder().Add(keeper.FinishAfter)):
			c.wake(sku, keeper.Forget)
		case !g.Open || g.Stale || g.Epoch != sale.Epoch || sale.Mode != orders.ModeGate || !g.Terms.Equal(sale.Terms()):
			// The copy may be old, so the keeper reads the sale itself.
			c.wake(sku, keeper.Inspect)
		case g.Queued > 0:
			c.wake(sku, keeper.Drain)
		}
	}
	return nil
}

// A schedule holds the times at which a slot compares its gate with the database.
type schedule struct {
	seen  inventory.Summary // the gate when a comparison of its sums was last scheduled
	later keeper.Work       // work that a pass has left for later
	sums  time.Time         // earliest time of the next comparison of sums
	scan  time.Time         // time of the next scan, order by order; zero: not set yet
}

// maxScans is how many SKUs begin to be compared order by order in one
// resync, and one more for each hundred that the node keeps.
const maxScans = 4

// schedule schedules the comparisons of sku's stores. The sums are compared only if the
// gate has changed since the last comparison, because every change of units changes the
// gate. A sale at rest therefore costs no more than its summary, until it is compared
// order by order.
func (c *Controller) schedule(sku string, g inventory.Summary, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.slots[sku]
	if p == nil || !g.Open {
		return
	}
	every, todo := c.cfg.ReconcileHoldsEvery, p.later&keeper.ScanPage
	if p.scan.IsZero() { // not all at once
		p.scan = now.Add(rand.N(every))
	}
	if !now.Before(p.scan) && c.scans < maxScans+len(c.slots)/100 {
		c.scans++
		p.scan = now.Add(every)
		todo |= keeper.Scan | keeper.Compare
	} else if !now.Before(p.sums) && (g != p.seen || p.later&keeper.Compare != 0) {
		todo |= keeper.Compare
	}
	if todo&keeper.Compare != 0 {
		p.seen, p.sums = g, now.Add(c.cfg.ReconcileEvery)
	}
	if todo != 0 {
		c.enqueue(p, todo)
	}
}

// announce implements keeper.Params.Announce.
func (c *Controller) announce(ctx context.Context, sku string, epoch int64) (now bool, err error) {
	wait := c.catalog.UntilSwitch(sku, epoch)
	if wait == store.CatalogLease { // this node knows of no announcement
		if err = c.store.Announce(ctx, sku, epoch); err == nil {
			err = c.catalog.Refresh(ctx)
		}
		wait = c.catalog.UntilSwitch(sku, epoch)
	}
	if err == nil && wait > 0 {
		time.AfterFunc(wait, func() { c.wake(sku, keeper.Inspect) })
	}
	return wait == 0, err
}

// Stale announces the replacement of the stale gate of sku, which has that epoch. A
// buyer's request usually finds a stale gate before the keeper does. Within a second,
// further calls for the same epoch do nothing.
func (c *Controller) Stale(ctx context.Context, sku string, epoch int64) {
	if asked, _ := c.staleEpochs.Swap(sku, epoch); asked == epoch {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.Timeout)
	defer cancel()
	if err := c.store.Announce(ctx, sku, epoch); err != nil {
		c.staleEpochs.Delete(sku)
		c.log.Debug("rebuild not asked for", "sku", sku, "error", err)
		return
	}
	time.AfterFunc(store.CatalogLease, func() { c.staleEpochs.CompareAndDelete(sku, epoch) })
	c.RequestInspect(ctx, sku)
}

// lookAtQueues notes how long the queues are and since when, and how far
// Redis's clock and this one are apart.
func (c *Controller) lookAtQueues(ctx context.Context, skus []string, summaries []inventory.Summary) error {
	var busy []string
	for i, sku := range skus {
		if summaries[i].Queued > 0 {
			busy = append(busy, sku)
		}
	}
	asked := time.Now()
	oldest, now, err := c.gate.OldestQueued(ctx, busy...)
	since := make(map[string]time.Time, len(busy))
	if err == nil {
		ahead := now.Sub(asked.Add(time.Since(asked) / 2))
		c.clockOffset.Store(&ahead)
		for i, sku := range busy {
			if !oldest[i].IsZero() {
				since[sku] = oldest[i].Add(-ahead)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, sku := range skus {
		if p := c.slots[sku]; p != nil {
			p.waiting = waiting{orders: summaries[i].Queued, since: since[sku]}
		}
	}
	return err
}
