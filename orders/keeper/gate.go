package keeper

import (
	"context"

	"flashsale/inventory"
)

// Gate is the part of inventory.KeeperGate that a keeper uses.
type Gate interface {
	ReadQueue(ctx context.Context, sku, after string, limit int64) ([]inventory.QueuedOrder, error)
	Ack(ctx context.Context, sku string, orders []inventory.QueuedOrder, release []string) (left int64, err error)
	ReleaseHolds(ctx context.Context, sku string, epoch int64, ids []string) (int64, error)
	DropHolds(ctx context.Context, sku string, epoch int64, ids []string) error
	SetTerms(ctx context.Context, sku string, epoch int64, t inventory.Terms) error
	BeginRebuild(ctx context.Context, sku string, epoch int64) error
	Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error
	Install(ctx context.Context, d *inventory.Draft, oldEpoch int64, v inventory.View) (bool, error)
	Discard(ctx context.Context, d *inventory.Draft) error
	DeleteSale(ctx context.Context, sku string, epoch int64) (bool, error)
	Tally(ctx context.Context, sku string, ids, buyers []string) (inventory.View, error)
	ScanHolds(ctx context.Context, sku string, cursor uint64) (ids []string, next uint64, err error)
	ScanBuyers(ctx context.Context, sku string, cursor uint64) (buyers []string, next uint64, err error)
	Summaries(ctx context.Context, skus ...string) ([]inventory.Summary, error)
}
