package inventory

import (
	"context"

	"flashsale/inventory/coalesce"
)

// maxCallers is the largest number of callers of one SKU on this node. Further callers
// receive ErrBusy. Without a bound, a Redis that hangs would fill the node's memory.
const maxCallers = 20_000

// A saleState holds the state of one SKU. Its group collects the callers of Reserve.
type saleState struct {
	gate  *Gate
	sku   string
	group *coalesce.Group[Request, Reservation]

	clock redisClock // clock of the SKU's master
	fill  fill       // orders per entry of the queue, as last read
	memory
}

// A call is the request of one caller, with its answer.
type call = coalesce.Caller[Request, Reservation]

func (g *Gate) state(sku string) *saleState {
	if s, ok := g.skus.Load(sku); ok {
		return s.(*saleState)
	}
	s := &saleState{gate: g, sku: sku}
	s.group = coalesce.New(coalesce.Config[Request, Reservation]{
		MaxBatch: g.cfg.MaxBatch, MaxInFlight: g.cfg.MaxInFlight, MaxCallers: maxCallers, Timeout: g.cfg.Timeout, Tasks: &g.tasks,
		Call: func(ctx context.Context, _ string, batch []*call) { s.reserveBatch(ctx, batch) },
	})
	first, _ := g.skus.LoadOrStore(sku, s)
	return first.(*saleState)
}
