package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// A Catalog is a node's copy of the sales, so that a request needs no query to find its
// sale.
//
// The copy is also a lease for refusals. A gate cannot detect that it is out of date: another
// Redis may have been promoted, or the sale may have changed to direct mode. A process that
// replaces the gate of a sale first announces the change in the sale's row
// (orders.ModeChanging), and then waits for CatalogLease. By then, every copy without the
// announcement is too old to vouch for the gate, even on a node that cannot reach the
// database.
type Catalog struct {
	store *Store
	clock func() time.Time // the node's wall clock, which may be wrong
	copy  atomic.Pointer[salesCopy]
	doubt atomic.Bool
	mu    sync.Mutex // one reader of the database at a time
}

// A salesCopy is the result of one read of the database.
type salesCopy struct {
	list      []orders.Sale
	bySKU     map[string]*orders.Sale
	announced map[string]time.Time // SKU in ModeChanging → when this node first knew that the announcement is durable
	ahead     time.Duration        // the database's time minus the node's time
	read      time.Time            // time of the last read of whole sales
	began     time.Time            // time at which the last read began
}

// CatalogLease is the time for which a copy vouches for gates, from the start of its read. It
// is also the time that must pass between an announcement and the new epoch. Both are measured
// by the process's monotonic clock.
const CatalogLease = time.Second

// CatalogEvery is the interval at which a node renews its copy. Two renewals may fail
// before the copy is too old.
const CatalogEvery = CatalogLease / 3

// catalogAge limits the age of columns that do not matter for refusals, such as the units
// sold. Between two reads of whole rows, a node compares only epochs and modes.
const catalogAge = time.Second

// NewCatalog returns an empty Catalog. Between two reads, it derives the database's time from
// clock.
func NewCatalog(in *Store, clock func() time.Time) *Catalog {
	return &Catalog{store: in, clock: clock}
}

// Renew renews the lease of the copy. It compares epochs and modes with the database, and
// reads the whole sales if they differ or are about to become older than catalogAge.
func (c *Catalog) Renew(ctx context.Context) error {
	last := c.copy.Load()
	if last == nil || time.Since(last.read) > catalogAge-CatalogEvery/2 {
		return c.Refresh(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, CatalogLease) // the next attempt may use a better connection
	defer cancel()
	began := time.Now()
	same, err := readDurably(ctx, c.store, func(db *gorm.DB) (bool, error) { return sameModes(db, last.bySKU) })
	if err == nil && !same {
		return c.Refresh(ctx)
	}
	if err != nil {
		return err
	}
	next := *last
	next.began = began
	c.copy.CompareAndSwap(last, &next) // a Refresh may have stored a newer copy
	return nil
}

// Refresh reads the sales, and replaces the copy when the rows are durable. Concurrent callers
// share a read that begins after their call.
func (c *Catalog) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.store.Timeout)
	defer cancel()
	asked := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.copy.Load()
	if last != nil && last.began.After(asked) {
		return nil
	}
	began := time.Now()
	next, err := readDurably(ctx, c.store, func(db *gorm.DB) (*salesCopy, error) {
		sales, now, err := c.store.sales(db)
		return &salesCopy{list: sales, ahead: now.Sub(c.clock()), read: began, began: began}, err
	})
	if err != nil {
		return err
	}
	next.bySKU, next.announced = map[string]*orders.Sale{}, map[string]time.Time{}
	for i := range next.list {
		sale := &next.list[i]
		next.bySKU[sale.SKU] = sale
		if sale.Mode == orders.ModeChanging {
			since, known := last.announcedAt(sale.SKU, sale.Epoch)
			if !known || !last.bySKU[sale.SKU].CreatedAt.Equal(sale.CreatedAt) { // a new sale has the SKU of an archived sale
				since = time.Now()
			}
			next.announced[sale.SKU] = since
		}
	}
	c.copy.Store(next)
	return nil
}

// announcedAt returns the time at which this node first knew of the announced end of the epoch.
func (s *salesCopy) announcedAt(sku string, epoch int64) (since time.Time, known bool) {
	if s == nil || s.bySKU[sku] == nil || s.bySKU[sku].Epoch != epoch {
		return since, false
	}
	since, known = s.announced[sku]
	return since, known
}

// UntilSwitch returns the time for which the caller must still wait before it may end the given
// epoch of sku, and whether this node's copy has the announcement. The time is 0 if this node has
// known of the announcement for CatalogLease.
func (c *Catalog) UntilSwitch(sku string, epoch int64) (wait time.Duration, announced bool) {
	since, announced := c.copy.Load().announcedAt(sku, epoch)
	if !announced {
		return CatalogLease, false
	}
	return max(0, CatalogLease-time.Since(since)), true
}

// IsFresh reports whether the copy is young enough to vouch for a gate.
func (c *Catalog) IsFresh() bool { return c.copy.Load().isFresh() }

func (s *salesCopy) isFresh() bool { return s != nil && time.Since(s.began) < CatalogLease }

// DoubtGates sets whether the gates may belong to another database.
func (c *Catalog) DoubtGates(doubt bool) { c.doubt.Store(doubt) }

// DoubtsGates reports whether the gates may belong to another database.
func (c *Catalog) DoubtsGates() bool { return c.doubt.Load() }

// Vouches reports whether a refusal by sku's gate of the given epoch is final. The copy must be
// fresh and contain the same epoch, no change may be announced, and the gate must not be in doubt.
// Vouches returns false for a sale that is not in the copy, even if Sale has read it from the
// database.
func (c *Catalog) Vouches(sku string, epoch int64) bool {
	last := c.copy.Load()
	if !last.isFresh() || c.DoubtsGates() {
		return false
	}
	sale := last.bySKU[sku]
	return sale != nil && sale.Mode == orders.ModeGate && sale.Epoch == epoch && !sale.TakesOnPayment()
}

// Sale returns one sale from the copy, or from the database if the copy does not have it,
// because the sale may be new. Error: ErrNotFound.
func (c *Catalog) Sale(ctx context.Context, sku string) (*orders.Sale, error) {
	if sale := c.Cached(sku); sale != nil {
		return sale, nil
	}
	if !orders.IsSKU(sku) {
		return nil, orders.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.Timeout)
	defer cancel()
	return c.store.Sale(ctx, sku)
}

// Cached returns the sale from the copy, or nil.
func (c *Catalog) Cached(sku string) *orders.Sale {
	if last := c.copy.Load(); last != nil {
		return last.bySKU[sku]
	}
	return nil
}

// All returns the sales of the copy, the latest OpensAt first.
func (c *Catalog) All() []orders.Sale {
	if last := c.copy.Load(); last != nil {
		return last.list
	}
	return nil
}

// Now returns the database's time, or the node's time before the first read.
func (c *Catalog) Now() time.Time {
	now := c.clock()
	if last := c.copy.Load(); last != nil {
		now = now.Add(last.ahead)
	}
	return now.UTC()
}

// Sales returns the copy and the database's time. The first call reads the database.
func (c *Catalog) Sales(ctx context.Context) ([]orders.Sale, time.Time, error) {
	if c.copy.Load() == nil {
		if err := c.Refresh(ctx); err != nil {
			return nil, time.Time{}, err
		}
	}
	return c.All(), c.Now(), nil
}
