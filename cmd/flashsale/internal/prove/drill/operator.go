package drill

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
)

// An operator changes the totals of the sales. For some seconds there are enough units.
// Then the total is cut to the units sold, and the sale is sold out until units are released.
// The last sale sometimes changes between units on order and units on payment.
type operator struct {
	*round

	mu   sync.Mutex
	lent map[string]bool // sales that a fault uses
}

const (
	plenty = 25 // units left after restocking
	few    = 12 // a sale with fewer units left is restocked
)

// operate changes one sale until ctx ends.
func (o *operator) operate(ctx context.Context, sku string, random *rand.Rand) {
	for ctx.Err() == nil {
		if sku == o.skus[skuCount-1] && random.IntN(2) == 0 && o.mayChange(sku) { // the change applies from the next PutSale on
			o.onPayment.Store(!o.onPayment.Load())
		}
		for until := time.Now().Add(time.Duration(2000+random.IntN(4000)) * time.Millisecond); time.Now().Before(until) && ctx.Err() == nil; {
			if seen := o.seen.Load(); seen != nil && seen.sales[sku].total-seen.sales[sku].sold < few && o.mayChange(sku) {
				o.stock(ctx, sku, plenty)
			}
			sleep(ctx, 100*time.Millisecond)
		}
		for range 1 + random.IntN(3) {
			if o.mayChange(sku) {
				o.stock(ctx, sku, int64(random.IntN(3)))
			}
			sleep(ctx, time.Duration(300+random.IntN(700))*time.Millisecond)
		}
	}
}

// mayChange reports whether the operator may change the sale. It may not while a fault
// uses the sale.
func (o *operator) mayChange(sku string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.lent[sku]
}

// leave stops the operator from changing sales while a fault uses them, until the returned
// function is called. In a drill, o is nil and leave does nothing.
func (o *operator) leave(skus ...string) (back func()) {
	set := func(left bool) {
		if o == nil {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, sku := range skus {
			o.lent[sku] = left
		}
	}
	set(true)
	return func() { set(false) }
}

// keepLeft keeps spare units of each sale available for the duration d.
func (o *operator) keepLeft(ctx context.Context, spare int64, d time.Duration, skus ...string) {
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for ; ctx.Err() == nil; sleep(ctx, 250*time.Millisecond) {
		for _, sku := range skus {
			o.stock(ctx, sku, spare)
		}
	}
}

// stock sets the total of a sale to the units sold plus spare. Errors are ignored, because
// more units may have been sold since, and nodes may be unavailable.
func (o *operator) stock(ctx context.Context, sku string, spare int64) {
	if o == nil {
		return
	}
	seen := o.seen.Load()
	nodes := o.state.usable()
	if seen == nil || len(nodes) == 0 {
		return
	}
	_ = o.put(ctx, nodes[rand.IntN(len(nodes))], sku, seen.sales[sku].sold+spare, o.opened.Add(24*time.Hour))
}

func (a *round) put(ctx context.Context, node int, sku string, total int64, closes time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	operator, err := a.Operator(a.Nodes[node].URL())
	if err != nil {
		return err
	}
	reserveOn := "order"
	if a.onPayment.Load() && sku == a.skus[skuCount-1] {
		reserveOn = "payment"
	}
	_, err = operator.PutSale(ctx, sku, api.Terms{
		Name: "Storm", Price: 100, Currency: "EUR", Total: total, UnitsPerBuyer: buyerLimit,
		OpensAt: a.opened, ClosesAt: closes, PaymentWindowS: int64(window / time.Second), ReserveOn: reserveOn,
	})
	return err
}
