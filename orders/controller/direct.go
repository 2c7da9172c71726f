package controller

import (
	"context"
	"errors"

	"flashsale/inventory"
	"flashsale/orders"
)

// In direct mode a sale continues while Redis is down: each node runs the keeper's transaction
// itself, without a gate and without a queue. The mode is a column of the sale's row, so that
// all nodes agree:
//
//   - A switch is announced (orders.ModeChanging). When no node relies on the gate any more,
//     one update enters direct mode and raises fence and epoch. Both steps require that no live
//     node writes to the Redis master of the sale, so that no keeper can reach the gate. If
//     only one node is cut off from Redis, nothing changes.
//   - Each order is conditional on the mode.
//   - A rebuild of the gate ends direct mode in the transaction that issues the new epoch,
//     before the gate opens.

// probe probes every Redis master. If one is down, it calls EnterDirect.
func (c *Controller) probe(ctx context.Context) error {
	if c.health.probe(ctx) {
		_ = c.assigner.beat(ctx) // if this fails, the next heartbeat stores the change
	}
	if ctx.Err() != nil || !c.RedisDown() {
		return nil
	}
	return c.EnterDirect(ctx)
}

// EnterDirect switches sales to direct mode if their Redis master is down and no live node
// writes to it. The first call announces the switch, and a call after store.CatalogLease makes
// it. Sales that have ended are not switched.
func (c *Controller) EnterDirect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Store.Timeout)
	defer cancel()
	sales, now, err := c.catalog.Sales(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, sale := range sales {
		sku, epoch := sale.SKU, sale.Epoch
		if !sale.HasGate() || !now.Before(sale.ClosesAt) {
			continue
		}
		name, m := c.health.master(sku)
		if !m.down || c.assigner.anyWrites(name) {
			continue
		}
		if sale.Mode == orders.ModeGate {
			errs = append(errs, c.cfg.Store.Announce(ctx, sku, epoch))
		} else if wait, _ := c.catalog.UntilSwitch(sku, epoch); wait == 0 {
			entered, err := c.cfg.Store.EnterDirect(ctx, sku, epoch, name, c.cfg.Keeper.Lease)
			errs = append(errs, err)
			if entered {
				c.counters.DirectEntered.Add(1)
				c.cfg.Log.Warn("direct mode entered: selling without Redis", "sku", sku)
			}
		}
	}
	if len(errs) > 0 {
		errs = append(errs, c.catalog.Refresh(ctx))
	}
	return errors.Join(errs...)
}

// CommitDirect commits orders in direct mode like Store.CommitDirect, and counts the inserted
// orders.
func (c *Controller) CommitDirect(ctx context.Context, sku string, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
	decisions, err := c.cfg.Store.CommitDirect(ctx, sku, batch)
	for _, d := range decisions {
		if d.Action == orders.Insert {
			c.counters.DirectPlaced.Add(1)
		}
	}
	return decisions, err
}

// InDirectMode reports whether a Redis master is down and a sale is in direct mode.
func (c *Controller) InDirectMode() bool { return c.RedisDown() && c.DirectSales() > 0 }

// DirectSales returns the number of sales in direct mode.
func (c *Controller) DirectSales() (n int) {
	for _, sale := range c.catalog.All() {
		if sale.Mode == orders.ModeDirect {
			n++
		}
	}
	return n
}
