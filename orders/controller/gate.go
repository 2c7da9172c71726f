package controller

import (
	"context"
	"time"

	"flashsale/inventory"
	"flashsale/orders/keeper"
)

// Gate is the part of inventory.KeeperGate that a node and its keepers use.
type Gate interface {
	keeper.Gate
	OldestQueued(ctx context.Context, skus ...string) (oldest []time.Time, now time.Time, err error)
	ProbeMasters(ctx context.Context) []inventory.Master
	MasterOf(ctx context.Context, sku string) (string, error)
}
