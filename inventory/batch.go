package inventory

import (
	"context"

	"flashsale/inventory/coalesce"
)

// maxCallers bounds the callers of one SKU on this node: a Redis that hangs must
// not fill its memory. Others hear ErrBusy.
const maxCallers = 20_000

// saleState is what a Gate knows of one SKU. Its group is where the callers meet:
// whoever comes while calls are in flight shares the next one.
type saleState struct {
	gate  *Gate
	sku   string
	group *coalesce.Group[Request, Reservation]

	clock redisClock // clock of the SKU's master
	fill  fill       // fill of the queue's entries, as last read
	memory
}

// A call is one caller's request, with its answer.
type call = coalesce.Caller[Request, Reservation]

func (g *Gate) state(sku string) *saleState {
	if s, ok := g.skus.Load(sku); ok {
		return s.(*saleState)
	}
	s := &saleState{gate: g, sku: sku}
	s.group = coalesce.New(coalesce.Config[Request, Reservation]{
		Batch: g.cfg.Batch, InFlight: g.cfg.InFlight, Callers: maxCallers, Timeout: g.cfg.Timeout, Tasks: &g.tasks,
		Call: func(ctx context.Context, _ string, batch []*call) { s.reserveBatch(ctx, batch) },
	})
	first, _ := g.skus.LoadOrStore(sku, s)
	return first.(*saleState)
}
