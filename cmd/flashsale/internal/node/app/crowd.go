package app

import (
	"context"
	"io"
	"strings"
	"sync"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/gentle"
	"flashsale/orders"
)

// demoCrowd implements web.Crowd. It sends buyers to the demo's sale, one crowd at a time.
type demoCrowd struct {
	app    *App
	visits sync.WaitGroup

	mu   sync.Mutex
	end  context.CancelFunc // ends the current crowd; nil if there is none
	over bool               // the node is stopping
}

// Start sends a crowd to the newest sale of the demo that is not over. It returns
// web.ErrCrowdRunning if a crowd is running, and orders.ErrNotFound if the demo has no sale that
// is not over.
func (d *demoCrowd) Start(ctx context.Context) error {
	sales, now, err := d.app.store.Sales(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sale := range sales {
		if now.After(sale.ClosesAt) || sale.SKU != demoSKU && !strings.HasPrefix(sale.SKU, demoSKU+"-") {
			continue
		}
		if d.end != nil || d.over {
			return web.ErrCrowdRunning
		}
		visiting, end := context.WithCancel(context.WithoutCancel(ctx))
		d.end = end
		d.visits.Go(func() { d.visit(visiting, sale.SKU) })
		return nil
	}
	return orders.ErrNotFound
}

func (d *demoCrowd) visit(ctx context.Context, sku string) {
	turnout, err := gentle.Run(ctx, gentle.Config{
		Target: d.app.URL(), Token: d.app.Token, SKU: sku, Rate: gentle.Rate, Duration: gentle.Duration, Progress: io.Discard,
	})
	d.app.cfg.Log.Info("demo crowd ended", "sku", sku, "turnout", turnout, "error", err)
	d.Stop()
	d.mu.Lock()
	d.end = nil
	d.mu.Unlock()
}

// Stop ends the current crowd, if there is one.
func (d *demoCrowd) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end != nil {
		d.end()
	}
}

// Run waits until ctx is canceled, then ends the current crowd and rejects new ones.
func (d *demoCrowd) Run(ctx context.Context) error {
	<-ctx.Done()
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
	d.Stop()
	d.visits.Wait()
	return nil
}
