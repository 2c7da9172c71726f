package loadtest

import (
	"context"
	"net/http"
	"time"

	"flashsale/loadtest/client"
)

// watch reads the stock for the progress lines, once a second over all sales, until ctx
// ends. It adds nothing if the server does not report what is left.
func (r *run) watch(ctx context.Context, sales int) {
	for ctx.Err() == nil {
		var sale struct {
			Available *int `json:"available"`
		}
		if _, err := r.operator.Call(ctx, http.MethodGet, "/v1/sales/"+r.c.SKU, nil, &sale); err == nil && sale.Available != nil {
			r.stock.add(*sale.Available)
		}
		_ = client.Wait(ctx, time.Duration(sales)*time.Second)
	}
}
