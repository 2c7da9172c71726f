package orders

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// The catalog is a node's copy of the sales, read from the database every
// second, so that a request costs no query to know what is sold. It decides
// nothing: the gate has the terms, the database the last word.
type catalog struct {
	store *Store
	clock func() time.Time // this node's, right or wrong
	cur   atomic.Pointer[salesAt]
	mu    sync.Mutex // one reader of the database at a time
}

type salesAt struct {
	list  []Sale
	bySKU map[string]*Sale
	ahead time.Duration // the database's clock, less this one's
}

// catalogAge is how old a copy may be.
const catalogAge = time.Second

// keptAfter is how long after its last order may have expired a sale stays in
// the catalog, and has a keeper.
const keptAfter = 24 * time.Hour

// refresh reads the sales that are still of interest.
func (c *catalog) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	all, now, err := c.store.Sales(ctx)
	if err != nil {
		return err
	}
	next := &salesAt{bySKU: map[string]*Sale{}, ahead: now.Sub(c.clock())}
	for _, sale := range all {
		if now.Before(sale.ClosesAt.Add(time.Duration(sale.PaymentWindowS)*time.Second + keptAfter)) {
			next.list = append(next.list, sale)
		}
	}
	for i := range next.list {
		next.bySKU[next.list[i].SKU] = &next.list[i]
	}
	c.cur.Store(next)
	return nil
}

// Run keeps the copy fresh. A database that is away leaves the old one.
func (c *catalog) Run(ctx context.Context) error {
	tick := time.NewTicker(catalogAge)
	defer tick.Stop()
	for {
		_ = c.refresh(ctx) // whoever needs the database says that it is away
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sale returns one sale: from the copy, else from the database, for a SKU that
// was created a moment ago. Error: ErrNotFound.
func (c *catalog) sale(ctx context.Context, sku string) (*Sale, error) {
	if cur := c.cur.Load(); cur != nil {
		if sale := cur.bySKU[sku]; sale != nil {
			return sale, nil
		}
	}
	if !isSKU(sku) {
		return nil, ErrNotFound
	}
	return c.store.Sale(ctx, sku)
}

// direct tells whether sku is sold the direct way, as far as this node knows.
func (c *catalog) direct(sku string) bool {
	cur := c.cur.Load()
	return cur != nil && cur.bySKU[sku] != nil && cur.bySKU[sku].Mode == modeDirect
}

// onPayment tells whether sku takes units on payment, as far as this node knows.
func (c *catalog) onPayment(sku string) bool {
	cur := c.cur.Load()
	return cur != nil && cur.bySKU[sku] != nil && cur.bySKU[sku].ReserveOn == OnPayment
}

// sales returns the copy and the database's clock.
func (c *catalog) sales(ctx context.Context) ([]Sale, time.Time, error) {
	cur := c.cur.Load()
	if cur == nil {
		if err := c.refresh(ctx); err != nil {
			return nil, time.Time{}, err
		}
		cur = c.cur.Load()
	}
	return cur.list, c.clock().Add(cur.ahead).UTC(), nil
}
