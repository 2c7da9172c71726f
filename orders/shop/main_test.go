package shop

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// A shop is a running Service and its stores.
type shop struct {
	*Service
	rdb  redis.UniversalClient
	gate inventory.KeeperGate
	stop func() // ends Run and waits until Run has returned
}

// open starts a node on the stores. change may be nil.
func open(t testing.TB, s *servers.Stores, change func(*Config)) *shop {
	t.Helper()
	p := build(t, s, change)
	p.start(t)
	return p
}

// owning makes the database of a node the owner of Redis, as Run does, unless a test has made one
// of the stores fail.
func owning(t testing.TB, s *Service) *Service {
	_ = s.controller.OwnRedis(t.Context())
	return s
}

// build returns a node that does not run yet.
func build(t testing.TB, s *servers.Stores, change func(*Config)) *shop {
	t.Helper()
	store, rdb := bare.OpenStore(t, s.SQL), kit.OpenRedis(t, s.RedisURL)
	gate := bare.NewGate(rdb, 0)
	cfg := Config{Store: store, Gate: gate, Redis: rdb, Log: check.Log(t), Wait: bare.Patience}
	cfg.Keeper.Lease = bare.Patience / 3 // nodes try to take free locks 20 times per lease
	if change != nil {
		change(&cfg)
	}
	p := &shop{Service: owning(t, New(cfg)), rdb: rdb, gate: gate}
	p.gateTimeout = bare.Patience
	return p
}

func (p *shop) start(t testing.TB) { p.stop = bare.Start(t, p.Run) }

func (p *shop) put(t testing.TB, s orders.Sale) {
	t.Helper()
	_, err := untilKnown(t, func() (offer orders.Offer, err error) { offer, _, err = p.PutSale(t.Context(), s); return offer, err })
	check.Must(t, err)
}

// untilKnown repeats a call until its outcome is known, as a client does.
func untilKnown[T any](t testing.TB, call func() (T, error)) (answer T, err error) {
	t.Helper()
	check.Eventually(t, "the outcome of a call is known", func() bool {
		answer, err = call()
		return !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded)
	})
	return answer, err
}

// settled waits until no order is queued and no release is due, and returns the audit.
func (p *shop) settled(t testing.TB, sku string) store.Audit { return bare.WaitSettled(t, p, sku) }

// settledAt waits until S is settled, and compares the units sold, available and, if given,
// paid.
func (p *shop) settledAt(t testing.TB, sold, available int64, paid ...int64) {
	t.Helper()
	if a := p.settled(t, "S"); a.Sold != sold || a.Available != available || len(paid) > 0 && a.Paid != paid[0] {
		t.Errorf("audit: got %+v, want %d sold, %d available, %d paid", a, sold, available, paid)
	}
}

// places calls Place, and fails the test unless the error is want.
func places(t testing.TB, p interface {
	Place(context.Context, Placement) (Placed, error)
}, what Placement, want error) Placed {
	t.Helper()
	placed, err := untilKnown(t, func() (Placed, error) { return p.Place(t.Context(), what) })
	if !errors.Is(err, want) {
		t.Errorf("place %+v: got %+v, error %v, want %v", what, placed.Order, err, want)
	}
	return placed
}

// pays calls Pay, and fails the test unless the error is want and the order's status is left.
// Without left, the status is compared only if want is nil.
func pays(t testing.TB, p interface {
	Pay(ctx context.Context, buyer, id, ref string) (*orders.Order, error)
}, buyer, id, ref string, want error, left ...orders.Status) {
	t.Helper()
	o, err := untilKnown(t, func() (*orders.Order, error) { return p.Pay(t.Context(), buyer, id, ref) })
	if want == nil {
		left = []orders.Status{orders.Paid}
	}
	if !errors.Is(err, want) || len(left) > 0 && o.Status != left[0] {
		t.Errorf("%s pays %s with %s: got %+v, error %v, want %v %v", buyer, id, ref, o, err, left, want)
	}
}

// cancels calls Cancel, and fails the test unless the error is want.
func cancels(t testing.TB, p interface {
	Cancel(ctx context.Context, buyer, id string) (*orders.Order, error)
}, buyer, id string, want error) {
	t.Helper()
	o, err := untilKnown(t, func() (*orders.Order, error) { return p.Cancel(t.Context(), buyer, id) })
	if !errors.Is(err, want) || err == nil && o.Status != orders.Cancelled {
		t.Errorf("%s cancels %s: got %+v, error %v, want %v", buyer, id, o, err, want)
	}
}
