package bare

import (
	"context"
	"testing"

	"flashsale/inventory"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// faultyGate is a gate whose calls fail as planned.
type faultyGate struct {
	keeper.Gate
	plan kit.Plan
}

// FaultyGate returns gate with the faults of plan.
func FaultyGate(gate keeper.Gate, plan kit.Plan) keeper.Gate { return faultyGate{gate, plan} }

func (g faultyGate) ReadQueue(ctx context.Context, sku, after string, limit int64) (q []inventory.QueuedOrder, err error) {
	err = g.plan.Around("queue", func() (err error) { q, err = g.Gate.ReadQueue(ctx, sku, after, limit); return err })
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (g faultyGate) Ack(ctx context.Context, sku string, orders []inventory.QueuedOrder, release []string) (left int64, err error) {
	err = g.plan.Around("ack", func() (err error) { left, err = g.Gate.Ack(ctx, sku, orders, release); return err })
	return left, err
}

func (g faultyGate) ReleaseHolds(ctx context.Context, sku string, epoch int64, ids []string) (n int64, err error) {
	err = g.plan.Around("release", func() (err error) { n, err = g.Gate.ReleaseHolds(ctx, sku, epoch, ids); return err })
	return n, err
}

func (g faultyGate) DropHolds(ctx context.Context, sku string, epoch int64, ids []string) error {
	return g.plan.Around("drop", func() error { return g.Gate.DropHolds(ctx, sku, epoch, ids) })
}

func (g faultyGate) SetTerms(ctx context.Context, sku string, epoch int64, terms inventory.Terms) error {
	return g.plan.Around("terms", func() error { return g.Gate.SetTerms(ctx, sku, epoch, terms) })
}

func (g faultyGate) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	return g.plan.Around("shut", func() error { return g.Gate.BeginRebuild(ctx, sku, epoch) })
}

func (g faultyGate) Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error {
	return g.plan.Around("stage", func() error { return g.Gate.Stage(ctx, d, c) })
}

func (g faultyGate) Install(ctx context.Context, d *inventory.Draft, was int64, v inventory.View) (ok bool, err error) {
	err = g.plan.Around("install", func() (err error) { ok, err = g.Gate.Install(ctx, d, was, v); return err })
	return ok && err == nil, err
}

func (g faultyGate) Discard(ctx context.Context, d *inventory.Draft) error {
	return g.plan.Around("discard", func() error { return g.Gate.Discard(ctx, d) })
}

// FailingKeeper takes over the sale S and returns a keeper. Its calls to both stores fail as
// planned.
func (b *Bare) FailingKeeper(t testing.TB, plan kit.Plan) *Keeper {
	t.Helper()
	return KeeperOf(t, FaultyStore(t, b.Store, plan), FaultyGate(b.Gate, plan), "S")
}

// FaultyStore returns a copy of the store whose commits fail as planned.
func FaultyStore(t testing.TB, s *store.Store, plan kit.Plan) *store.Store {
	return kit.Onto(t, s.WithPool, kit.Failing(s.DB, plan))
}
