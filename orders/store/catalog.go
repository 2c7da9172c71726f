package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/orders"
)

// A Catalog is a node's copy of the sales, read from the database every second,
// so that a request costs no query to know what is sold. It decides nothing: the
// gate has the terms, the database the last word.
type Catalog struct {
	store *Store
	clock func() time.Time // this node's, right or wrong
	copy  atomic.Pointer[salesCopy]
	mu    sync.Mutex // one reader of the database at a time
}

// A salesCopy is what one read of the database has found.
type salesCopy struct {
	list  []orders.Sale
	bySKU map[string]*orders.Sale
	ahead time.Duration // the database's clock, less this one's
	began time.Time     // when the database was asked
}

// CatalogAge is how old a copy may be.
const CatalogAge = time.Second

// NewCatalog returns an empty one. The clock only carries the database's time on
// from one reading to the next.
func NewCatalog(in *Store, clock func() time.Time) *Catalog {
	return &Catalog{store: in, clock: clock}
}

// Refresh reads the sales, or waits for somebody who has just begun to.
func (c *Catalog) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	asked := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.copy.Load(); last != nil && last.began.After(asked) {
		return nil
	}
	began := time.Now()
	sales, now, err := c.store.Sales(ctx)
	if err != nil {
		return err
	}
	next := &salesCopy{list: sales, bySKU: map[string]*orders.Sale{}, ahead: now.Sub(c.clock()), began: began}
	for i := range sales {
		next.bySKU[sales[i].SKU] = &sales[i]
	}
	c.copy.Store(next)
	return nil
}

// Sale returns one sale: from the copy, else from the database, for a SKU that
// was created a moment ago. Error: ErrNotFound.
func (c *Catalog) Sale(ctx context.Context, sku string) (*orders.Sale, error) {
	if sale := c.Known(sku); sale != nil {
		return sale, nil
	}
	if !orders.IsSKU(sku) {
		return nil, orders.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return c.store.Sale(ctx, sku)
}

// ReadSince tells whether the database was asked for the copy after t.
func (c *Catalog) ReadSince(t time.Time) bool {
	last := c.copy.Load()
	return t.IsZero() || last != nil && last.began.After(t)
}

// Known is a sale of the copy, or nil.
func (c *Catalog) Known(sku string) *orders.Sale {
	if last := c.copy.Load(); last != nil {
		return last.bySKU[sku]
	}
	return nil
}

// All are the sales of the copy, the newest first.
func (c *Catalog) All() []orders.Sale {
	if last := c.copy.Load(); last != nil {
		return last.list
	}
	return nil
}

// Direct tells whether sku is sold in direct mode, as far as this node knows.
func (c *Catalog) Direct(sku string) bool {
	sale := c.Known(sku)
	return sale != nil && sale.Mode == orders.ModeDirect
}

// Now is the database's clock, and this node's until it was asked.
func (c *Catalog) Now() time.Time {
	now := c.clock()
	if last := c.copy.Load(); last != nil {
		now = now.Add(last.ahead)
	}
	return now.UTC()
}

// Sales returns the copy and the database's clock. A node that has none yet reads
// one.
func (c *Catalog) Sales(ctx context.Context) ([]orders.Sale, time.Time, error) {
	if c.copy.Load() == nil {
		if err := c.Refresh(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	return c.All(), c.Now(), nil
}
