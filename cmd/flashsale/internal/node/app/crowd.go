package app

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/gentle"
	"flashsale/orders"
)

// demoCrowd sends buyers to the demo's sale: one crowd at a time.
type demoCrowd struct {
	app  *App
	come chan string                        // the SKU; taken while no crowd is here
	end  atomic.Pointer[context.CancelFunc] // of the latest; nil: none came
}

// Come sends a crowd to the newest sale of the demo that is not over.
func (d *demoCrowd) Come(ctx context.Context) error {
	sales, now, err := d.app.store.Sales(ctx)
	if err != nil {
		return err
	}
	for _, sale := range sales {
		if now.After(sale.ClosesAt) || sale.SKU != demoSKU && !strings.HasPrefix(sale.SKU, demoSKU+"-") {
			continue
		}
		select {
		case d.come <- sale.SKU:
			return nil
		default:
			return web.ErrCrowd
		}
	}
	return orders.ErrNotFound
}

// Leave ends the crowd that is here, if one is.
func (d *demoCrowd) Leave() {
	if end := d.end.Load(); end != nil {
		(*end)()
	}
}

// Run lets crowds come until ctx ends, and with it the one that is here.
func (d *demoCrowd) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case sku := <-d.come:
			visiting, end := context.WithCancel(ctx)
			d.end.Store(&end)
			turnout, err := gentle.Run(visiting, gentle.Config{
				Target: d.app.URL(), Token: d.app.Token, SKU: sku, Rate: gentle.Rate, Duration: gentle.Duration, Progress: io.Discard,
			})
			end()
			if err != nil {
				d.app.cfg.Log.Warn("no crowd", "sku", sku, "error", err)
				continue
			}
			d.app.cfg.Log.Info("the crowd has left", "sku", sku, "came_to", turnout)
		}
	}
}
