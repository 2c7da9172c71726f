package orders

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"flashsale/inventory"
)

// The direct way is how a sale goes on while Redis is gone for long: the
// keeper's transaction, without a gate before it and without a queue. It is a
// state of the sale in the database (direct_store.go), so that all nodes agree:
//
//   - entered by one update that raises fence and epoch, only while no node
//     that is alive reaches Redis: the keeper does not, and nobody could take
//     its place. A single node that is cut off changes nothing;
//   - each order is conditional on it;
//   - left by the rebuild of the gate, in the transaction that issues the new
//     epoch, and so before the gate opens.

// DirectConfig of the direct way. The zero value means the defaults.
type DirectConfig struct {
	// After is for how long Redis must have been out of reach before a sale is
	// sold the direct way, and how long it must have been back before a keeper
	// takes the sale over again. Up to twice as long where Redis does not even
	// refuse. Default 3 s.
	After time.Duration
	// Line bounds the buyers of one node who are on the direct way at once: the
	// database must not be run over. Others hear inventory.ErrBusy. Default 256.
	Line int
}

func (c DirectConfig) withDefaults() DirectConfig {
	if c.After <= 0 {
		c.After = 3 * time.Second
	}
	if c.Line <= 0 {
		c.Line = 256
	}
	return c
}

// lookTimeout is how long Redis may take to show that it is there.
const lookTimeout = time.Second

// directWay is this node's part in it.
type directWay struct {
	cfg     DirectConfig
	store   *Store
	catalog *catalog
	link    *link
	look    func(context.Context) error // asks Redis something
	beat    func(context.Context)       // tells the others what came of it
	alive   time.Duration               // a node not seen for so long is dead
	log     *slog.Logger
	count   *Counters

	line *line
}

// Run looks after Redis until ctx ends.
func (d *directWay) Run(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.After / contraryLooks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.runOnce(ctx)
		}
	}
}

func (d *directWay) runOnce(ctx context.Context) {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	err := d.look(looking)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if d.link.saw(err == nil) {
		if err != nil {
			d.log.Warn("Redis is out of reach", "error", err)
		} else {
			d.log.Info("Redis is back")
		}
		d.beat(ctx)
	}
	if !d.link.isLost() {
		return
	}
	if err := d.enter(ctx); err != nil && ctx.Err() == nil {
		d.log.Debug("enter the direct way", "error", err)
	}
}

// enter has all sales that are not over sold the direct way, if no node reaches
// Redis.
func (d *directWay) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	reached, err := d.store.redisReached(ctx, d.alive)
	if err != nil || reached {
		return err
	}
	sales, now, err := d.catalog.sales(ctx)
	if err != nil {
		return err
	}
	var errs []error
	tried := false
	for i := range sales {
		sku := sales[i].SKU
		if sales[i].Mode == modeDirect || !now.Before(sales[i].ClosesAt) {
			continue
		}
		tried = true
		entered, err := d.store.EnterDirect(ctx, sku, d.alive)
		errs = append(errs, err)
		if entered {
			d.count.DirectEntered.Add(1)
			d.log.Warn("selling the direct way", "sku", sku)
		}
	}
	if tried { // by this node or by another, they have entered
		errs = append(errs, d.catalog.refresh(ctx))
	}
	return errors.Join(errs...)
}

// commit is Store.Direct, counted.
func (d *directWay) commit(ctx context.Context, sku string, batch []inventory.Queued) ([]verdict, error) {
	verdicts, err := d.store.Direct(ctx, sku, batch)
	for _, v := range verdicts {
		if v.insert {
			d.count.DirectPlaced.Add(1)
		}
	}
	return verdicts, err
}

// SellsDirect tells whether this node sells without Redis.
func (s *Service) SellsDirect() bool { return s.link.isLost() && s.DirectSales() > 0 }

// DirectSales is how many sales are sold the direct way.
func (s *Service) DirectSales() (n int) {
	if cur := s.catalog.cur.Load(); cur != nil {
		for i := range cur.list {
			if cur.list[i].Mode == modeDirect {
				n++
			}
		}
	}
	return n
}
