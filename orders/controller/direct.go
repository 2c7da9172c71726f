package controller

import (
	"context"
	"errors"

	"flashsale/inventory"
	"flashsale/orders"
)

// In direct mode a sale continues while Redis is away for long: each node uses the
// keeper's transaction, without a gate and without a queue. Direct mode is a state of the
// sale in the database (pastgate.go), so that all nodes agree:
//
//   - It is announced (orders.ModeChanging), and entered once every node has learned of
//     the announcement, by one update that raises fence and epoch. Both happen only while
//     no live node writes to the master that has the sale's gate. Then neither the keeper
//     nor a successor can reach the gate. If a single node is cut off, nothing changes.
//   - Each order is conditional on the mode.
//   - The rebuild of the gate ends direct mode, in the transaction that issues the new
//     epoch, before the gate opens.

// probe checks every Redis master, and enters direct mode if one is down.
func (c *Controller) probe(ctx context.Context) error {
	if c.health.probe(ctx) {
		_ = c.assigner.beat(ctx) // the next heartbeat repeats it
	}
	if ctx.Err() != nil || !c.RedisDown() {
		return nil
	}
	return c.EnterDirect(ctx)
}

// EnterDirect switches the sales that have not ended to direct mode. A sale is switched
// only if no live node writes to the master of its gate. The first call announces the
// change, and a later call makes it.
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
		} else if c.catalog.UntilSwitch(sku, epoch) == 0 {
			entered, err := c.cfg.Store.EnterDirect(ctx, sku, epoch, name, c.cfg.Keeper.Lease)
			errs = append(errs, err)
			if entered {
				c.count.DirectEntered.Add(1)
				c.cfg.Log.Warn("selling in direct mode", "sku", sku)
			}
		}
	}
	if len(errs) > 0 {
		errs = append(errs, c.catalog.Refresh(ctx))
	}
	return errors.Join(errs...)
}

// CommitDirect is Store.Direct, counted.
func (c *Controller) CommitDirect(ctx context.Context, sku string, batch []inventory.Queued) ([]orders.Decision, error) {
	verdicts, err := c.cfg.Store.Direct(ctx, sku, batch)
	for _, v := range verdicts {
		if v.Action == orders.Insert {
			c.count.DirectPlaced.Add(1)
		}
	}
	return verdicts, err
}

// InDirectMode reports whether this node sells without Redis, or without one of its
// masters.
func (c *Controller) InDirectMode() bool { return c.RedisDown() && c.DirectSales() > 0 }

// DirectSales is how many sales are sold in direct mode.
func (c *Controller) DirectSales() (n int) {
	for _, sale := range c.catalog.All() {
		if sale.Mode == orders.ModeDirect {
			n++
		}
	}
	return n
}
