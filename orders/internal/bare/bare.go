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

// A Bare contains the stores of a sale. Nothing runs in the background, so a test decides the
// order of all steps.
type Bare struct {
	Store *store.Store
	Rdb   redis.UniversalClient
	Gate  inventory.KeeperGate
}

// Open puts a sale into the stores and builds its gate.
func Open(t testing.TB, s *servers.Stores, put orders.Sale) *Bare {
	t.Helper()
	b := &Bare{Store: OpenStore(t, s.SQL), Rdb: kit.OpenRedis(t, s.RedisURL)}
	b.Gate = NewGate(b.Rdb, 0)
	kit.PutSale(t, b.Store, put)
	b.Keeper(t, put.SKU).Finish(t)
	return b
}

// A Keeper makes a pass only when a test calls Step, Run or Finish.
type Keeper struct {
	*keeper.Keeper
	Work keeper.Work // the work of the next pass
}

// Keeper takes over sku and returns its keeper.
func (b *Bare) Keeper(t testing.TB, sku string) *Keeper {
	t.Helper()
	return KeeperOf(t, b.Store, b.Gate, sku)
}

// KeeperOf takes over sku and returns its keeper, which uses the given stores.
func KeeperOf(t testing.TB, st *store.Store, gate keeper.Gate, sku string) *Keeper {
	t.Helper()
	k, err := TakeOver(t, st, gate, 3, sku)
	check.Must(t, err)
	return &Keeper{k, keeper.ReleaseHolds | keeper.CorrectGate}
}

// TakeOver takes over sku and returns its keeper. It acquires no lock, so only the fence separates
// two keepers of one SKU.
func TakeOver(t testing.TB, st *store.Store, gate keeper.Gate, batch int, sku string) (*keeper.Keeper, error) {
	sale, err := st.TakeOver(t.Context(), sku)
	if err != nil {
		return nil, err
	}
	count := new(keeper.Counters)
	return keeper.New(sale, keeper.Config{
		Store: st, Gate: gate, MaxBatch: batch, ScanPasses: 1, Log: check.Log(t), Counters: count,
		Commits: keeper.NewGroupCommit(st, batch, 24, time.Second, count),
		Announce: func(ctx context.Context, sku string, epoch int64) (bool, error) { // no other node relies on the gate
			return true, st.Announce(ctx, sku, epoch)
		},
		Notify: func(context.Context, []orders.Decision) {}, OnCommit: func(*keeper.Commit) {},
	}), nil
}

// Step makes one pass.
func (k *Keeper) Step(ctx context.Context) (err error) {
	k.Work, err = k.Pass(ctx, k.Work)
	return err
}

// Run makes passes until no work is left. A failed pass is repeated up to three times, as a
// node does, unless a fault was injected or the keeper is fenced off.
func (k *Keeper) Run(ctx context.Context) error {
	for failures := 0; ; {
		err := k.Step(ctx)
		k.Work &^= keeper.CompareSums // the test requests comparisons itself
		switch {
		case err == nil && k.Work == 0:
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

// Finish is Run with all work, and fails the test on an error.
func (k *Keeper) Finish(t testing.TB) {
	t.Helper()
	k.Work |= keeper.ReleaseHolds | keeper.CorrectGate
	check.Must(t, k.Run(t.Context()))
}

// Reserve makes an order of the sale S at the gate, and returns its id.
func (b *Bare) Reserve(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	var err error
	check.Eventually(t, "a hold for "+buyer, func() bool { // released units are available after 100 ms
		_, err = b.Gate.Reserve(t.Context(), inventory.Request{
			OrderID: id, SKU: "S", Buyer: buyer, Quantity: quantity, Key: key, Fingerprint: orders.Fingerprint("S", quantity),
		})
		return !errors.Is(err, inventory.ErrSoldOut) && !errors.Is(err, inventory.ErrLate)
	})
	if err != nil {
		t.Fatalf("reserve for %s: got error %v, want none", buyer, err)
	}
	return id
}

// Queue returns the queue of the sale S.
func (b *Bare) Queue(t testing.TB) []inventory.QueuedOrder {
	t.Helper()
	q, err := b.Gate.ReadQueue(t.Context(), "S", "", 500)
	check.Must(t, err)
	return q
}

// Rows returns all orders in the database, by id.
func (b *Bare) Rows(t testing.TB) map[string]orders.Order { return kit.RowsOf(t, b.Store.DB) }

// Audit audits the sale S.
func (b *Bare) Audit(t testing.TB) store.Audit {
	t.Helper()
	a, err := b.Store.Audit(t.Context(), b.Gate.Inspect, "S")
	check.Must(t, err)
	return a
}

// CheckAudit checks that the audit balances, that no units are queued or restoring, and the
// numbers of units sold and available.
func (b *Bare) CheckAudit(t testing.TB, sold, available int64) {
	t.Helper()
	if a := b.Audit(t); !a.Balanced || a.Queued != 0 || a.Restoring != 0 || a.Sold != sold || a.Available != available {
		t.Errorf("audit: got %+v, want it balanced, %d sold and %d available", a, sold, available)
	}
}

// Epoch returns the epoch of the sale S.
func (b *Bare) Epoch(t testing.TB) int64 {
	t.Helper()
	sale, err := b.Store.Sale(t.Context(), "S")
	check.Must(t, err)
	return sale.Epoch
}

// EnterDirect switches the sale S to direct mode.
func (b *Bare) EnterDirect(t testing.TB) {
	t.Helper()
	if entered, err := EnterDirect(t, b.Store, time.Minute); !entered || err != nil {
		t.Fatalf("enter direct mode: got %t, error %v, want true", entered, err)
	}
}

// EnterDirect announces direct mode for the sale S and enters it, unless a node that can
// write to Redis had a heartbeat within alive. It does not wait for the nodes.
func EnterDirect(t testing.TB, st *store.Store, alive time.Duration) (entered bool, err error) {
	t.Helper()
	sale, err := st.Sale(t.Context(), "S")
	check.Must(t, err)
	check.Must(t, st.Announce(t.Context(), "S", sale.Epoch))
	return st.EnterDirect(t.Context(), "S", sale.Epoch, inventory.Standalone, alive)
}

// DeleteAll deletes all data from both stores.
func (b *Bare) DeleteAll(t testing.TB) {
	t.Helper()
	kit.Exec(t, b.Store.DB, "DELETE FROM refunds")
	kit.Exec(t, b.Store.DB, "DELETE FROM orders")
	kit.Exec(t, b.Store.DB, "DELETE FROM sales")
	check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
	b.Gate = NewGate(b.Rdb, 0) // the old Gate would notice that Redis has lost data
}

// StoreWithOrders returns a store with a sale S and n pending orders.
func StoreWithOrders(t testing.TB, sql string, n int) (*store.Store, []string) {
	t.Helper()
	st := OpenStore(t, sql)
	kit.PutSale(t, st, kit.Sale("S", int64(n)+5, 1))
	return st, kit.InsertPendingOrders(t, st.DB, n)
}

// Start runs a node until the test ends or stop is called. stop waits for the node.
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

// WaitSettled waits until the audit of a sale balances and no units are queued or restoring, and
// returns the audit.
func WaitSettled(t testing.TB, p interface {
	Audit(ctx context.Context, sku string) (store.Audit, error)
}, sku string) (a store.Audit) {
	t.Helper()
	check.Eventually(t, "a balanced audit of "+sku, func() bool {
		var err error
		a, err = p.Audit(t.Context(), sku)
		return err == nil && a.Queued == 0 && a.Restoring == 0 && a.Balanced
	})
	return a
}

// Patience is the timeout of stores and gates in tests that do not test timeouts. The timeout is
// long, so that tests of other behavior pass on a busy machine.
const Patience = time.Minute

// NewGate returns a gate with the timeout Patience. It remembers "sold out" for soldOutFor,
// or for the default time if that is 0.
func NewGate(rdb redis.UniversalClient, soldOutFor time.Duration) inventory.KeeperGate {
	return inventory.KeeperGate{Gate: inventory.New(rdb, inventory.Config{Timeout: Patience, SoldOutFor: soldOutFor})}
}

// OpenStore returns a migrated store with the timeout Patience.
func OpenStore(t testing.TB, sql string) *store.Store {
	t.Helper()
	return OpenStoreWith(t, sql, Patience)
}

// OpenStoreWith returns a migrated store with that timeout.
func OpenStoreWith(t testing.TB, sql string, timeout time.Duration) *store.Store {
	t.Helper()
	st, err := store.Open(sql, store.Config{Timeout: timeout})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	return st
}
