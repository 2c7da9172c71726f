package loadtest

import (
	"context"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// watch reads the stock until ctx ends, and once more afterwards. It reads at most 200
// times in an attack and 20 times per second over all sales, because a rate limiter
// sees one address.
func (r *run) watch(ctx context.Context, sales int) {
	if r.c.lacks(judge.Auditing) || r.c.lacks(judge.Counter) {
		return // the shop does not know what is left
	}
	every := time.Duration(sales) * max(50*time.Millisecond, r.c.Duration/200)
	for ctx.Err() == nil {
		r.readStock(ctx)
		_ = client.Wait(ctx, every)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	r.readStock(ctx)
}

// readStock adds a point if the server returns the stock.
func (r *run) readStock(ctx context.Context) {
	if sale, err := r.operator.Offer(ctx); err == nil {
		r.stock.add(report.StockPoint{At: time.Now(), Available: int(sale.Available)})
	}
}
