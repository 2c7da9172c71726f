package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
)

// Gate is what a keeper and its node ask of the stock in Redis.
type Gate interface {
	// The keeper's.
	Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error)
	Ack(ctx context.Context, sku string, orders []inventory.Acked) (left int64, err error)
	Release(ctx context.Context, sku string, epoch int64, ids []string) (int64, error)
	Confirm(ctx context.Context, sku string, epoch int64, ids []string) error
	SetTerms(ctx context.Context, sku string, epoch int64, t inventory.Terms) error
	BeginRebuild(ctx context.Context, sku string, epoch int64) error
	Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error
	Install(ctx context.Context, d *inventory.Draft, was, epoch int64, s inventory.Stock) (bool, error)
	Discard(ctx context.Context, d *inventory.Draft) error
	DeleteSale(ctx context.Context, sku string, epoch int64) (bool, error)
	Tally(ctx context.Context, sku string, ids, buyers []string) (inventory.Tally, error)
	ScanHolds(ctx context.Context, sku string, cursor uint64) (ids []string, next uint64, err error)
	ScanBuyers(ctx context.Context, sku string, cursor uint64) (units map[string]int64, next uint64, err error)

	// The node's.
	Summaries(ctx context.Context, skus ...string) ([]inventory.Summary, error)
	OldestQueued(ctx context.Context, skus ...string) (oldest []time.Time, now time.Time, err error)
	Probe(ctx context.Context) []inventory.Master
	Master(ctx context.Context, sku string) (string, error)
}
