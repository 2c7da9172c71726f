package orders

import (
	"context"
	"time"

	"flashsale/inventory"
)

// Gate is what orders asks of the stock in Redis: package inventory's, or one
// of the broken ones that show what happens without it.
type Gate interface {
	// A buyer's way.
	SoldOut(sku, buyer string) bool
	Reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error)
	Held(ctx context.Context, orderID string, skus ...string) (sku string, h inventory.Hold, ok bool, err error)

	// The keeper's.
	Claim(ctx context.Context, sku string, fence int64) error
	Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error)
	Settle(ctx context.Context, sku string, fence int64, orders []inventory.Settled) error
	Release(ctx context.Context, sku string, m inventory.Mandate, ids []string) (int64, error)
	Confirm(ctx context.Context, sku string, m inventory.Mandate, ids []string) error
	SetTerms(ctx context.Context, sku string, m inventory.Mandate, t inventory.Terms) error
	Shut(ctx context.Context, sku string, m inventory.Mandate) error
	Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error
	Install(ctx context.Context, d *inventory.Draft, epoch int64, s inventory.Stock) (bool, error)
	Discard(ctx context.Context, d *inventory.Draft) error

	// Reading.
	Look(ctx context.Context, sku string) (inventory.View, error)
	Glance(ctx context.Context, skus ...string) ([]inventory.Glance, error)
	Oldest(ctx context.Context, skus ...string) (oldest []time.Time, now time.Time, err error)
	Tally(ctx context.Context, sku string, ids, buyers []string) (inventory.Tally, error)
	HeldPage(ctx context.Context, sku string, cursor uint64) (ids []string, next uint64, err error)
	BuyersPage(ctx context.Context, sku string, cursor uint64) (units map[string]int64, next uint64, err error)
}

var _ Gate = (*inventory.Gate)(nil)
