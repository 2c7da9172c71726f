package app

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/node/live"
	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/client"
	"flashsale/loadtest/gentle"
	"flashsale/orders"
)

// A crowd sends one order per second for each crowdUnits units. A sale of a thousand units then
// lasts for about three minutes, because an order is for one or two units, and some come back.
const crowdUnits = 160

// demoCrowd implements web.Crowd. It sends buyers to a sale, one crowd at a time.
type demoCrowd struct {
	app    *App
	visits sync.WaitGroup

	mu      sync.Mutex
	end     context.CancelFunc // ends the current crowd; nil if there is none
	current *live.Crowd        // nil if no crowd is running, or if the running crowd has been stopped
	over    bool               // the node is stopping
}

// Current returns the running crowd. It returns nil if there is none, or if the crowd has been stopped.
func (d *demoCrowd) Current() *live.Crowd {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// Start sends a crowd to the sale sku, or to the newest sale of the demo if sku is empty. It
// returns a *web.CrowdRunningError if a crowd is running, and orders.ErrNotFound if there is no such
// sale, if it is over, or if a load test judges it.
func (d *demoCrowd) Start(ctx context.Context, sku string) (size web.CrowdSize, err error) {
	sales, now, err := d.app.store.Sales(ctx)
	if err != nil {
		return size, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sale := range sales {
		ofDemo := sku == "" && (sale.SKU == demoSKU || strings.HasPrefix(sale.SKU, demoSKU+"-"))
		if now.After(sale.ClosesAt) || sale.SKU != sku && !ofDemo || strings.HasPrefix(sale.Name, client.JudgedNamePrefix) {
			continue
		}
		if d.current != nil {
			return size, &web.CrowdRunningError{SKU: d.current.SKU, Left: d.current.Until.Sub(now)}
		}
		if d.over || d.end != nil {
			return size, web.ErrCrowdRunning
		}
		perSecond := min(max((sale.Total-sale.Sold)/crowdUnits, 1), gentle.Rate)
		size = web.CrowdSize{SKU: sale.SKU, Rate: int(perSecond), Seconds: int(gentle.Duration / time.Second)}
		visiting, end := context.WithCancel(context.WithoutCancel(ctx))
		until := now.Add(max(0, sale.OpensAt.Sub(now)) + gentle.Duration).Truncate(time.Millisecond)
		d.end, d.current = end, &live.Crowd{SKU: sale.SKU, Until: until}
		d.visits.Go(func() { d.visit(visiting, size) })
		return size, nil
	}
	return size, orders.ErrNotFound
}

func (d *demoCrowd) visit(ctx context.Context, size web.CrowdSize) {
	sku := size.SKU
	turnout, err := gentle.Run(ctx, gentle.Config{
		Target: d.app.URL(), Token: d.app.Token, SKU: sku, Rate: size.Rate, Duration: gentle.Duration, Progress: io.Discard,
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
		d.current = nil
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
