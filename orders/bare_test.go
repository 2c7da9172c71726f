package orders

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
)

// A bare shop has the stores but runs nothing: a test takes each step itself,
// and in the order that it wants.
type bare struct {
	store *Store
	rdb   redis.UniversalClient
	gate  *inventory.Gate
}

// openBare puts an open sale S into the stores and builds its gate.
func openBare(t testing.TB, s *servers.Stores, put Sale) *bare {
	t.Helper()
	b := &bare{store: openStore(t, s.SQL), rdb: openRedis(t, s.RedisURL)}
	b.gate = inventory.New(b.rdb, inventory.Config{})
	if _, err := b.store.PutSale(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	b.keeper(t, put.SKU).finish(t)
	return b
}

// keeper takes over sku, as Keepers.take does less the lock.
func (b *bare) keeper(t testing.TB, sku string) *keeper {
	t.Helper()
	return keeperOf(t, b.store, b.gate, sku)
}

func keeperOf(t testing.TB, store *Store, gate Gate, sku string) *keeper {
	t.Helper()
	sale, err := store.TakeOver(t.Context(), sku)
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Claim(t.Context(), sku, sale.Fence); err != nil {
		t.Fatal(err)
	}
	k := &keeper{
		sku: sku, fence: sale.Fence, store: store, together: newConvoy(store, 3, new(Counters)), gate: gate,
		batch: 3, log: quiet(t), count: new(Counters),
		tell: func(context.Context, []verdict) {}, committed: func(*Commit) {},
	}
	k.ended.Store(true)
	k.inspect.Store(true)
	return k
}

// run makes passes until there is nothing more to do. One that fails is tried
// again, as a keeper does, unless the keeper is dead or fenced off.
func (k *keeper) run(ctx context.Context) error {
	for failures := 0; ; {
		k.page.Store(true) // as the patrol does
		more, err := k.pass(ctx)
		more = more || k.walking.Load()
		switch {
		case err == nil && !more && !k.ended.Load() && !k.inspect.Load():
			return nil
		case err == nil:
			failures = 0
		case failures == 3 || errors.Is(err, errFault) || errors.Is(err, ErrFenced) || errors.Is(err, inventory.ErrFenced):
			return err
		default:
			failures++
		}
	}
}

// finish is run by a keeper to whom nothing happens.
func (k *keeper) finish(t testing.TB) {
	t.Helper()
	k.ended.Store(true)
	k.inspect.Store(true)
	if err := k.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// reserve has the gate let an order in, and returns its id.
func (b *bare) reserve(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	p := Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: key}
	id := uuid.Must(uuid.NewV7()).String()
	_, err := b.gate.Reserve(t.Context(), inventory.Request{
		OrderID: id, SKU: "S", Buyer: buyer, Quantity: quantity, Key: key, Fingerprint: p.fingerprint(),
	})
	if err != nil {
		t.Fatalf("reserve for %s: %v", buyer, err)
	}
	return id
}

// queue is all that the gate has let in and the keeper has not yet settled.
func (b *bare) queue(t testing.TB) []inventory.Queued {
	t.Helper()
	q, err := b.gate.Queue(t.Context(), "S", "", 500)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// rows are all orders in the database, by id.
func (b *bare) rows(t testing.TB) map[string]Order { return rowsOf(t, b.store) }

func rowsOf(t testing.TB, store *Store) map[string]Order {
	t.Helper()
	var list []Order
	if err := store.db.WithContext(t.Context()).Find(&list).Error; err != nil {
		t.Fatal(err)
	}
	rows := map[string]Order{}
	for _, o := range list {
		rows[o.ID] = o
	}
	return rows
}

func (b *bare) audit(t testing.TB) Audit {
	t.Helper()
	a, err := b.store.Audit(t.Context(), b.gate, "S")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// exec changes the database behind everybody's back.
func exec(t testing.TB, store *Store, query string, args ...any) {
	t.Helper()
	if err := store.db.WithContext(t.Context()).Exec(query, args...).Error; err != nil {
		t.Fatal(err)
	}
}

func clockOf(t testing.TB, store *Store) time.Time {
	t.Helper()
	now, err := store.clock(store.db.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// overdue lets the payment windows of these orders be over.
func overdue(t testing.TB, store *Store, ids ...string) {
	t.Helper()
	exec(t, store, "UPDATE orders SET expires_at = ? WHERE id IN ?", clockOf(t, store).Add(-time.Second), ids)
}
