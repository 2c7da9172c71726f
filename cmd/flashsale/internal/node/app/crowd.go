package app

import (
	"context"
	"strings"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest"
	"flashsale/orders"
)

// demoCrowd sends buyers to the demo's sale: one crowd at a time. Its Run owns
// their goroutines.
type demoCrowd struct {
	app   *App
	come  chan string   // the SKU; taken while no crowd is here
	leave chan struct{} // taken while one is
}

func newDemoCrowd(a *App) *demoCrowd {
	return &demoCrowd{app: a, come: make(chan string), leave: make(chan struct{})}
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
	select {
	case d.leave <- struct{}{}:
	default:
	}
}

// Run lets crowds come until ctx ends. Then it sends away the one that is here.
func (d *demoCrowd) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case sku := <-d.come:
			d.stay(ctx, sku)
		}
	}
}

func (d *demoCrowd) stay(ctx context.Context, sku string) {
	ctx, end := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		c := loadtest.Gentle()
		c.Target, c.Token, c.SKU = d.app.URL(), d.app.Token, sku
		turnout, err := loadtest.SendCrowd(ctx, c)
		if err != nil {
			d.app.cfg.Log.Warn("crowd", "sku", sku, "error", err)
			return
		}
		d.app.cfg.Log.Info("the crowd has left", "sku", sku, "came_to", turnout)
	}()
	select {
	case <-left:
	case <-d.leave:
	}
	end()
	<-left
}
