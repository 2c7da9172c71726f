package controller

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// resync checks all SKUs of this node with one pipeline and one query, and wakes the keepers
// that have work. It finds the work of every message that was lost.
func (c *Controller) resync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Store.Timeout)
	defer cancel()
	// Read Redis first: Stats must show a queue that grows while the database is down.
	skus := c.pool.skus()
	summaries, gateErr := c.cfg.Gate.Summaries(ctx, skus...)
	if gateErr == nil {
		gateErr = c.measureQueues(ctx, skus, summaries)
	}
	ended, err := c.cfg.Store.EndedSKUs(ctx)
	if err != nil {
		return errors.Join(gateErr, err)
	}
	for _, sku := range ended {
		c.pool.wake(sku, keeper.ReleaseHolds)
	}
	if gateErr != nil {
		return gateErr
	}
	scans := maxScans + len(skus)/100
	_, now, err := c.catalog.Sales(ctx)
	if err != nil {
		return err
	}
	for i, sku := range skus {
		c.pool.update(sku, func(s *slot) keeper.Work { return s.comparisons(summaries[i], time.Now(), c.cfg.Keeper, &scans) })
		sale, err := c.catalog.Sale(ctx, sku)
		if err != nil {
			continue
		}
		switch g := summaries[i]; {
		case g.QueuedOrders == 0 && now.After(sale.LastExpiry().Add(keeper.OverAfter)):
			c.pool.wake(sku, keeper.DeleteGate)
		case !g.Open || g.Stale || g.Epoch != sale.Epoch || sale.Mode != orders.ModeGate || !g.Terms.Equal(sale.Terms()):
			// This node's copy of the sale may be old, so the keeper reads the row.
			c.pool.wake(sku, keeper.CorrectGate)
		case g.QueuedOrders > 0:
			c.pool.wake(sku, keeper.DrainQueue)
		}
	}
	return nil
}

// announce implements keeper.Config.Announce. If this node's copy of the sales does not contain
// the announcement, announce stores it in the database and refreshes the copy. If other nodes may
// still rely on the gate, announce wakes the keeper with CorrectGate once they no longer can.
func (c *Controller) announce(ctx context.Context, sku string, epoch int64) (now bool, err error) {
	wait, announced := c.catalog.UntilSwitch(sku, epoch)
	if !announced {
		if err = c.cfg.Store.Announce(ctx, sku, epoch); err == nil {
			err = c.catalog.Refresh(ctx)
		}
		wait, _ = c.catalog.UntilSwitch(sku, epoch)
	}
	if err == nil && wait > 0 {
		time.AfterFunc(wait, func() { c.pool.wake(sku, keeper.CorrectGate) })
	}
	return wait == 0, err
}

// ReplaceStaleGate announces the replacement of the stale gate of sku, whose epoch is given. A
// buyer's request usually finds a stale gate before the keeper does. Further calls for the same
// epoch do nothing for store.CatalogLease.
func (c *Controller) ReplaceStaleGate(ctx context.Context, sku string, epoch int64) {
	if asked, _ := c.staleEpochs.Swap(sku, epoch); asked == epoch {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Store.Timeout)
	defer cancel()
	if err := c.cfg.Store.Announce(ctx, sku, epoch); err != nil {
		c.staleEpochs.Delete(sku)
		c.cfg.Log.Debug("announcement of a stale gate's rebuild failed: the next request to the gate retries", "sku", sku, "error", err)
		return
	}
	time.AfterFunc(store.CatalogLease, func() { c.staleEpochs.CompareAndDelete(sku, epoch) })
	c.RequestInspect(ctx, sku)
}

// measureQueues records the backlogs of the slots and the offset of Redis's clock.
func (c *Controller) measureQueues(ctx context.Context, skus []string, summaries []inventory.Summary) error {
	var busy []string
	for i, sku := range skus {
		if summaries[i].QueuedOrders > 0 {
			busy = append(busy, sku)
		}
	}
	asked := time.Now()
	oldest, now, err := c.cfg.Gate.OldestQueued(ctx, busy...)
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
	for i, sku := range skus {
		c.pool.update(sku, func(s *slot) keeper.Work {
			s.backlog = backlog{orders: summaries[i].QueuedOrders, since: since[sku]}
			return 0
		})
	}
	return err
}
