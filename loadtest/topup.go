package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

const (
	// toppers is how many fresh buyers order at once.
	toppers = 8
	// enoughRefusals in a row mean that the sale is sold out. A single one may
	// come from a node that does not know yet of units that came back.
	enoughRefusals = 5
)

// topUp lets fresh buyers order one unit each until several in a row hear
// sold_out. Units that are not sold then are stranded. It returns why it could
// not get that far.
//
// Where orders may expire during this phase, the fresh buyers pay at once.
// Otherwise their orders would expire, too, and the phase would never end.
func (r *run) topUp(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The time starts again with each unit sold: a large rest may take long.
	stall := time.AfterFunc(r.patience.topUp, func() {
		stop(fmt.Errorf("fresh buyers neither bought nor heard sold_out for %v", r.patience.topUp))
	})
	defer stall.Stop()

	r.progress.start("fresh buyers until sold out", 0)
	defer r.progress.end()
	var (
		mu         sync.Mutex
		wg         sync.WaitGroup
		sold, noes int
	)
	for range toppers {
		wg.Go(func() {
			for ctx.Err() == nil {
				// A new buyer each time, so that neither the buyer's limit nor
				// the rate limiter refuses.
				b, err := r.crowd.fresh()
				if err != nil {
					stop(err)
					return
				}
				yes, code := r.buy(ctx, b, "fresh-order")
				mu.Lock()
				switch {
				case yes:
					stall.Reset(r.patience.topUp)
					// A gate that never refuses must not keep the run for ever.
					if sold, noes = sold+1, 0; sold > 2*r.c.Stock+1000 {
						stop(fmt.Errorf("%d fresh buyers bought of %d units and none heard sold_out", sold, r.c.Stock))
					}
				case code == "sold_out":
					if noes++; noes >= enoughRefusals {
						stop(errSoldOut)
					}
				case code != "":
					stop(fmt.Errorf("a fresh buyer was refused with %s", code))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errSoldOut) {
		return err
	}
	return nil
}

// errSoldOut ends a top-up as it should end.
var errSoldOut = errors.New("sold out")

// buy orders one unit for a fresh buyer. It pays, too, where the order would
// expire or where units are taken on payment. It returns a yes, the code of a
// refusal, or neither.
func (r *run) buy(ctx context.Context, b client.Buyer, key string) (yes bool, code string) {
	req := r.untilKnown(ctx, judge.Fresh, b, key, 1)
	switch {
	case req.Kind == judge.Lookup && req.Refuses(): // whatever the reason: the gate had accepted it
		return false, "sold_out"
	case req.Refuses():
		return false, req.Code
	case !req.Announces():
		return false, ""
	case !r.c.expiring() && !r.c.onPayment():
		return true, ""
	}
	payment := r.closeOrder(ctx, b, req.Order.ID, false)
	switch {
	case payment.Done() || !r.c.onPayment():
		return true, ""
	case payment.Refuses():
		return false, payment.Code
	}
	return false, ""
}
