package orders

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"flashsale/inventory"
)

// patrol looks after all SKUs of this node with one pipeline and one query,
// and wakes the keepers that have something to do: everything that a lost
// message could have told them.
func (ks *Keepers) patrol(ctx context.Context) {
	tick := time.NewTicker(ks.cfg.PatrolEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := ks.patrolOnce(ctx); err != nil && ctx.Err() == nil {
				ks.log.Debug("patrol", "error", err)
			}
		}
	}
}

func (ks *Keepers) patrolOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	// First: a queue that grows because the database is away is to be seen.
	skus := ks.Kept()
	glances, away := ks.gate.Glance(ctx, skus...)
	if away == nil {
		away = ks.lookAtQueues(ctx, skus, glances)
	}
	ended, err := ks.store.EndedSKUs(ctx)
	if err != nil {
		return errors.Join(away, err)
	}
	for _, sku := range ended {
		ks.wake(sku, lookAtEnded)
	}
	if away != nil {
		return away
	}
	for i, sku := range skus {
		ks.reconcile(sku, glances[i], time.Now())
		sale, err := ks.catalog.sale(ctx, sku)
		if err != nil {
			continue
		}
		switch g := glances[i]; {
		case !g.Open || g.Epoch != sale.Epoch || !g.Terms.Equal(sale.Terms()):
			// Maybe only the copy is old: the keeper looks at the real thing.
			ks.wake(sku, lookAtGate)
		case g.Queued > 0:
			ks.wake(sku, nil)
		}
	}
	return nil
}

// rounds are when a post is to compare its gate with the database.
type rounds struct {
	seen    inventory.Glance // the gate when its sums were last to be compared
	sums    time.Time        // not again before
	orders  time.Time        // next, order by order
	walked  inventory.Glance // the gate when that was last begun
	anyway  time.Time        // next, order by order, though nothing has changed since
	started bool
}

// atRest is how many times seldomer a gate that does not change is compared
// order by order: a thousand sales at rest, or one of a hundred thousand open
// orders, must not cost what a busy one may.
const atRest = 10

// reconcile has the keeper of sku compare the stores when it is time. Sums are
// compared where the gate has changed since, and whatever happens to units
// changes it: of a thousand sales at rest none costs more than this glance,
// until it is compared order by order.
func (ks *Keepers) reconcile(sku string, g inventory.Glance, now time.Time) {
	if !g.Open || ks.store.unguarded { // what a broken gate does is to be seen
		return
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	p := ks.posts[sku]
	if p == nil {
		return
	}
	if !p.started { // not all at once
		p.started, p.orders = true, now.Add(rand.N(ks.cfg.ReconcileHoldsEvery))
		p.walked, p.anyway = g, now.Add(rand.N(atRest*ks.cfg.ReconcileHoldsEvery))
	}
	walk := !now.Before(p.orders) && (g != p.walked || !now.Before(p.anyway))
	if walk {
		p.orders, p.anyway = now.Add(ks.cfg.ReconcileHoldsEvery), now.Add(atRest*ks.cfg.ReconcileHoldsEvery)
		p.walked = g
		p.walk.Store(true)
	}
	if p.walking.Load() {
		p.page.Store(true)
		ks.enqueue(p)
	}
	if !walk && (now.Before(p.sums) || g == p.seen && !p.suspect.Load()) {
		return
	}
	p.seen, p.sums = g, now.Add(ks.cfg.ReconcileEvery)
	p.due.Store(true)
	ks.enqueue(p)
}
