package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/orders"
)

// A Catalog is a node's copy of the sales, so that a request costs no query to learn
// what is sold.
//
// The copy is also a lease for refusals. A gate may be out of date without knowing it:
// another Redis may have been promoted, or the sales may have gone over to direct mode.
// Whoever replaces the gate of a sale first announces it in the sale's row
// (orders.ModeChanging), and then waits for CatalogLease. By then a copy that does not
// show the announcement is too old to vouch for the gate, on every node, whether or not
// it can still reach the database.
type Catalog struct {
	store *Store
	clock func() time.Time // the node's wall clock, however wrong
	copy  atomic.Pointer[salesCopy]
	mu    sync.Mutex // one reader of the database at a time
}

// A salesCopy is the result of one read of the database.
type salesCopy struct {
	list      []orders.Sale
	bySKU     map[string]*orders.Sale
	announced map[string]time.Time // SKUs in ModeChanging → when this node first knew that to be durable
	ahead     time.Duration        // the database's clock minus the node's
	read      time.Time            // when all of the sales were read
	began     time.Time            // when the database was asked last
}

// CatalogLease is how long a copy vouches for gates, from when the database was asked,
// and how long an announcement stands before the epoch may change. Both are measured on
// a process's monotonic clock.
const CatalogLease = time.Second

// CatalogEvery is how often a node renews its copy. Two renewals may fail before the copy
// is too old.
const CatalogEvery = CatalogLease / 3

// catalogAge is how old all that does not decide about a refusal may become, such as the
// units sold. Between two reads of whole rows a node compares epochs and modes only.
const catalogAge = time.Second

// NewCatalog returns an empty Catalog. The clock carries the database's time on from one
// read to the next.
func NewCatalog(in *Store, clock func() time.Time) *Catalog {
	return &Catalog{store: in, clock: clock}
}

// Renew renews the lease of the copy: it reads what decides about refusals, and the whole
// sales if they have changed or were not read for a second.
func (c *Catalog) Renew(ctx context.Context) error {
	last := c.copy.Load()
	if last == nil || time.Since(last.read) > catalogAge-CatalogEvery/2 {
		return c.Refresh(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, CatalogLease) // the next attempt may have a better connection
	defer cancel()
	began := time.Now()
	same, err := c.store.sellAlike(ctx, last.bySKU)
	if err == nil && !same {
		return c.Refresh(ctx)
	}
	if err == nil {
		err = c.store.Barrier(ctx)
	}
	if err != nil {
		return err
	}
	next := *last
	next.began = began
	c.copy.CompareAndSwap(last, &next) // a Refresh that was faster is as good
	return nil
}

// Refresh reads the sales, or waits for a read that has just begun. The copy is replaced
// once what was read is durable.
func (c *Catalog) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	asked := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.copy.Load()
	if last != nil && last.began.After(asked) {
		return nil
	}
	began := time.Now()
	sales, now, err := c.store.Sales(ctx)
	ahead := now.Sub(c.clock())
	if err == nil {
		err = c.store.Barrier(ctx)
	}
	if err != nil {
		return err
	}
	next := &salesCopy{list: sales, bySKU: map[string]*orders.Sale{}, announced: map[string]time.Time{}, ahead: ahead, read: began, began: began}
	for i := range sales {
		sale := &sales[i]
		next.bySKU[sale.SKU] = sale
		if sale.Mode == orders.ModeChanging {
			since, known := last.announcedAt(sale.SKU, sale.Epoch)
			if !known || !last.bySKU[sale.SKU].CreatedAt.Equal(sale.CreatedAt) { // an archived sale's SKU may be used again
				since = time.Now()
			}
			next.announced[sale.SKU] = since
		}
	}
	c.copy.Store(next)
	return nil
}

// announcedAt returns since when this node has known the end of that epoch to be announced.
func (s *salesCopy) announcedAt(sku string, epoch int64) (since time.Time, known bool) {
	if s == nil || s.bySKU[sku] == nil || s.bySKU[sku].Epoch != epoch {
		return since, false
	}
	since, known = s.announced[sku]
	return since, known
}

// UntilSwitch returns how long the caller has to wait before it may end that epoch of
// sku: 0 if its end was announced and CatalogLease has passed since then.
func (c *Catalog) UntilSwitch(sku string, epoch int64) time.Duration {
	since, known := c.copy.Load().announcedAt(sku, epoch)
	if !known {
		return CatalogLease
	}
	return max(0, CatalogLease-time.Since(since))
}

// IsFresh reports whether the copy is young enough to vouch for a gate.
func (c *Catalog) IsFresh() bool { return c.copy.Load().isFresh() }

func (s *salesCopy) isFresh() bool { return s != nil && time.Since(s.began) < CatalogLease }

// Vouches reports whether a refusal by sku's gate of that epoch is final: the copy is
// fresh and names that gate, and no change was announced. A sale that Sale has read past
// the copy is not vouched for.
func (c *Catalog) Vouches(sku string, epoch int64) bool {
	last := c.copy.Load()
	if !last.isFresh() {
		return false
	}
	sale := last.bySKU[sku]
	return sale != nil && sale.Mode == orders.ModeGate && sale.Epoch == epoch && !sale.TakesOnPayment()
}

// Sale returns one sale from the copy, or from the database if the sale was created a
// moment ago. Error: ErrNotFound.
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

// Known returns a sale of the copy, or nil.
func (c *Catalog) Known(sku string) *orders.Sale {
	if last := c.copy.Load(); last != nil {
		return last.bySKU[sku]
	}
	return nil
}

// All returns the sales of the copy, the newest first.
func (c *Catalog) All() []orders.Sale {
	if last := c.copy.Load(); last != nil {
		return last.list
	}
	return nil
}

// Direct reports whether sku is sold in direct mode, according to the copy.
func (c *Catalog) Direct(sku string) bool {
	sale := c.Known(sku)
	return sale != nil && sale.Mode == orders.ModeDirect
}

// Now returns the database's clock, or the node's if the database was not read yet.
func (c *Catalog) Now() time.Time {
	now := c.clock()
	if last := c.copy.Load(); last != nil {
		now = now.Add(last.ahead)
	}
	return now.UTC()
}

// Sales returns the copy and the database's clock. The first call reads the database.
func (c *Catalog) Sales(ctx context.Context) ([]orders.Sale, time.Time, error) {
	if c.copy.Load() == nil {
		if err := c.Refresh(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	return c.All(), c.Now(), nil
}
