package drill

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
)

// spare is the number of units that settle leaves in each sale and then buys.
const spare = 3

// settle checks that all units are released after the last fault, when no buyer is active.
// Open orders must expire, their units must be released within the stated time, and units
// that are left must sell one by one.
func (a *round) settle(ctx context.Context) error {
	a.onPayment.Store(false) // every order takes units from now on
	operator, err := a.Operator(a.Nodes[0].URL())
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i, sku := range a.skus {
		all.Go(func() {
			if a.addsUp(ctx, operator, sku) {
				a.buyOut(ctx, operator, i, sku)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// addsUp waits until no order of a sale is open or queued and its audit balances.
func (a *round) addsUp(ctx context.Context, operator *api.Client, sku string) bool {
	var last api.Audit
	audit := func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		now, err := operator.Audit(ctx, sku)
		if err == nil {
			last = now
		}
		return err == nil
	}
	// The last order was placed at the end of the storm or shortly after.
	if !a.within(ctx, window+mendsWithin, func(ctx context.Context) bool { return audit(ctx) && last.Pending == 0 }) {
		a.broke("not expired: %d units of %s are in orders that should have expired: %+v", last.Pending, sku, last)
		return false
	}
	if !a.within(ctx, mendsWithin, func(ctx context.Context) bool {
		return audit(ctx) && last.Balanced && last.Queued == 0 && last.Restoring == 0
	}) {
		a.broke("stranded: %s does not balance %v after the last fault ended: %+v", sku, mendsWithin, last)
		return false
	}
	return true
}

// within polls until ok returns true, or until d of the storm's own time is over.
func (a *round) within(ctx context.Context, d time.Duration, ok func(context.Context) bool) bool {
	for until := a.state.time() + d; ; {
		if ok(ctx) {
			return true
		}
		if a.state.time() > until || ctx.Err() != nil {
			return false
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// buyOut leaves a few units in the sale and buys them, each as a new buyer. It checks
// only that the sale ends sold out, because a payment that was delayed in a frozen
// database may also sell one of these units.
func (a *round) buyOut(ctx context.Context, operator *api.Client, number int, sku string) {
	total := int64(0)
	put := func(ctx context.Context) bool {
		audited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		audit, err := operator.Audit(audited, sku)
		if err != nil {
			return false
		}
		total = audit.Sold + spare
		return a.put(ctx, number%nodeCount, sku, total, a.opened.Add(24*time.Hour)) == nil
	}
	if !a.within(ctx, mendsWithin, put) {
		a.broke("stands still: the total of %s cannot be changed", sku)
		return
	}
	buyer, asked := 0, 0
	var last *call
	soldOut := func(ctx context.Context) bool {
		asked++
		last = a.do(ctx, call{
			verb: place, node: asked % nodeCount, buyer: fmt.Sprintf("last-%d-%d-%d", a.number, number, buyer),
			sku: sku, key: keyMark + "last", quantity: 1,
		})
		if last.accepted() || last.Status == http.StatusConflict { // after a 202 or a 503, ask again with the same key
			buyer++
		}
		now := a.seen.Load().sales[sku]
		return now.total == total && now.sold == total
	}
	if !a.within(ctx, mendsWithin, soldOut) {
		a.broke("stranded: the last units of %s cannot be bought, the next buyer gets %d %s: %+v", sku, last.Status, last.Code, a.seen.Load().sales[sku])
	}
}
