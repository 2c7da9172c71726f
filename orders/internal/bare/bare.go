package bare

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// A Bare has the stores but runs nothing: a test takes each step itself,
// and in the order that it wants.
type Bare struct {
	Store *store.Store
	Rdb   redis.UniversalClient
	Gate  inventory.Keeping
}

// Open puts an open sale S into the stores and builds its gate.
func Open(t testing.TB, s *servers.Stores, put orders.Sale) *Bare {
	t.Helper()
	b := &Bare{Store: OpenStore(t, s.SQL), Rdb: kit.OpenRedis(t, s.RedisURL)}
	b.Gate = NewGate(b.Rdb, 0)
	kit.Put(t, b.Store, put)
	b.Keeper(t, put.SKU).Finish(t)
	return b
}

// A Keeper is one that makes its passes when a test says so.
type Keeper struct {
	*keeper.Keeper
	Want keeper.Work // of the next run
}

// Keeper takes over sku.
func (b *Bare) Keeper(t testing.TB, sku string) *Keeper {
	t.Helper()
	return KeeperOf(t, b.Store, b.Gate, sku)
}

// KeeperOf returns a keeper of sku on the given stores.
func KeeperOf(t testing.TB, st *store.Store, gate keeper.Gate, sku string) *Keeper {
	t.Helper()
	k, err := One(t, st, gate, 3, sku)
	check.Must(t, err)
	return &Keeper{k, keeper.Release | keeper.Inspect}
}

// One takes over sku and returns its keeper, which shares nothing with others. The
// fence alone decides between them.
func One(t testing.TB, st *store.Store, gate keeper.Gate, batch int, sku string) (*keeper.Keeper, error) {
	sale, err := st.TakeOver(t.Context(), sku)
	if err != nil {
		return nil, err
	}
	count := new(keeper.Counters)
	return keeper.New(sale, keeper.Config{
		Store: st, Gate: gate, Batch: batch, Rounds: 1, Log: check.Log(t), Count: count,
		Commits: keeper.NewGroupCommit(st, batch, 24, time.Second, count),
		Announce: func(ctx context.Context, sku string, epoch int64) (bool, error) { // no other node relies on the gate
			return true, st.Announce(ctx, sku, epoch)
		},
		Tell: func(context.Context, []orders.Decision) {}, OnCommit: func(*keeper.Commit) {},
	}), nil
}

// Step makes one pass.
func (k *Keeper) Step(ctx context.Context) error {
	again, err := k.Pass(ctx, k.Want)
	k.Want = again
	return err
}

// Run makes passes until there is nothing more to do. One that fails is tried
// again, as a node does, unless the keeper is dead or fenced off.
func (k *Keeper) Run(ctx context.Context) error {
	for failures := 0; ; {
		err := k.Step(ctx)
		k.Want &^= keeper.Compare // what is off is compared when the test says so
		switch {
		case err == nil && k.Want == 0:
			return nil
		case err == nil:
			failures = 0
		case failures == 3 || errors.Is(err, kit.ErrFault) || errors.Is(err, orders.ErrFenced):
			return err
		default:
			failures++
		}
	}
}

// Finish is Run by a keeper to whom nothing happens.
func (k *Keeper) Finish(t testing.TB) {
	t.Helper()
	k.Want |= keeper.Release | keeper.Inspect
	check.Must(t, k.Run(t.Context()))
}

// Reserve has the gate let an order in, and returns its id.
func (b *Bare) Reserve(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	var err error
	check.Eventually(t, "a reservation for "+buyer, func() bool { // released units are available after 100 ms
		_, err = b.Gate.Reserve(t.Context(), inventory.Request{
			OrderID: id, SKU: "S", Buyer: buyer, Quantity: quantity, Key: key, Fingerprint: orders.Fingerprint("S", quantity),
		})
		return !errors.Is(err, inventory.ErrSoldOut) && !errors.Is(err, inventory.ErrLate)
	})
	if err != nil {
		t.Fatalf("reserve for %s: %v", buyer, err)
	}
	return id
}

// Queue is all that the gate has let in and the keeper has not yet acknowledged.
func (b *Bare) Queue(t testing.TB) []inventory.Queued {
	t.Helper()
	q, err := b.Gate.Queue(t.Context(), "S", "", 500)
	check.Must(t, err)
	return q
}

// Rows are all orders in the database, by id.
func (b *Bare) Rows(t testing.TB) map[string]orders.Order { return kit.RowsOf(t, b.Store.DB) }

// Audit audits the sale S.
func (b *Bare) Audit(t testing.TB) store.Audit {
	t.Helper()
	a, err := b.Store.Audit(t.Context(), b.Gate.Inspect, "S")
	check.Must(t, err)
	return a
}

// Stands wants the law to hold, with nothing in flight and so many units sold and on sale.
func (b *Bare) Stands(t testing.TB, sold, available int64) {
	t.Helper()
	if a := b.Audit(t); !a.Balanced || a.Queued != 0 || a.Restoring != 0 || a.Sold != sold || a.Available != available {
		t.Errorf("%+v, want %d sold and %d available", a, sold, available)
	}
}

// Epoch returns the epoch of the sale S.
func (b *Bare) Epoch(t testing.TB) int64 {
	t.Helper()
	sale, err := b.Store.Sale(t.Context(), "S")
	check.Must(t, err)
	return sale.Epoch
}

// EnterDirect has the sale S sold without its gate.
func (b *Bare) EnterDirect(t testing.TB) {
	t.Helper()
	if entered, err := EnterDirect(t, b.Store, time.Minute); !entered || err != nil {
		t.Fatal(entered, err)
	}
}

// EnterDirect announces direct mode for the sale S and enters it, unless a heartbeat that
// is younger than alive prevents it. It does not wait until nodes know of the announcement.
func EnterDirect(t testing.TB, st *store.Store, alive time.Duration) (entered bool, err error) {
	t.Helper()
	sale, err := st.Sale(t.Context(), "S")
	check.Must(t, err)
	check.Must(t, st.Announce(t.Context(), "S", sale.Epoch))
	return st.EnterDirect(t.Context(), "S", sale.Epoch, inventory.Standalone, alive)
}

// Empty makes the stores as they were before the sale.
func (b *Bare) Empty(t testing.TB) {
	t.Helper()
	kit.Exec(t, b.Store.DB, "DELETE FROM refunds")
	kit.Exec(t, b.Store.DB, "DELETE FROM orders")
	kit.Exec(t, b.Store.DB, "DELETE FROM sales")
	check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
	b.Gate = NewGate(b.Rdb, 0) // the old Gate would find that the gate has gone back
}

// Stocked is a store with a sale S and so many pending orders of it.
func Stocked(t testing.TB, sql string, n int) (*store.Store, []string) {
	t.Helper()
	st := OpenStore(t, sql)
	kit.Put(t, st, kit.Sale("S", int64(n)+5, 1))
	return st, kit.Stock(t, st.DB, n)
}

// Start runs a node until stop is called, which waits, or until the test ends.
func Start(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		check.OK(t, check.Receive(t, "the node stops", done))
	})
	t.Cleanup(stop)
	return stop
}

// Settled waits until nothing of a sale is in flight and returns its audit.
func Settled(t testing.TB, p interface {
	Audit(ctx context.Context, sku string) (store.Audit, error)
}, sku string) (a store.Audit) {
	t.Helper()
	check.Eventually(t, "settled "+sku, func() bool {
		var err error
		a, err = p.Audit(t.Context(), sku)
		return err == nil && a.Queued == 0 && a.Restoring == 0 && a.Balanced
	})
	return a
}

// Patience is the timeout of stores and gates in tests that are not about timeouts,
// because a busy machine is no error.
const Patience = time.Minute

// NewGate returns a patient gate, which remembers "sold out" for that long (0: as by
// default).
func NewGate(rdb redis.UniversalClient, soldOutFor time.Duration) inventory.Keeping {
	return inventory.Keeping{Gate: inventory.New(rdb, inventory.Config{Timeout: Patience, SoldOutFor: soldOutFor})}
}

// OpenStore returns a migrated and patient store on sql.
func OpenStore(t testing.TB, sql string) *store.Store {
	t.Helper()
	return OpenStoreWith(t, sql, Patience)
}

// OpenStoreWith returns a migrated store on sql, for a test in which the database does
// not answer in time.
func OpenStoreWith(t testing.TB, sql string, timeout time.Duration) *store.Store {
	t.Helper()
	st, err := store.Open(sql, store.Config{Timeout: timeout})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	return st
}
