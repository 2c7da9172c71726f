package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

const (
	// toppers is the number of fresh buyers who order at once.
	toppers = 8
	// enoughRefusals in a row mean that the sale is sold out. A single refusal may come
	// from a node that has not yet learned of released units.
	enoughRefusals = 5
)

// topUp sends fresh buyers who order one unit each, until several in a row receive
// sold_out. Units that are not sold then are stranded. It returns an error if it does
// not get that far.
//
// If orders may expire during this step, the fresh buyers pay at once. Otherwise
// their orders would expire as well, and the step would not end.
func (r *run) topUp(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Each sale restarts the time limit, because selling many units may take long.
	stall := time.AfterFunc(r.patience.topUp, func() {
		stop(fmt.Errorf("fresh buyers neither bought units nor received sold_out for %v", r.patience.topUp))
	})
	defer stall.Stop()

	r.progress.start("fresh buyers until sold out", 0)
	defer r.progress.end()
	var (
		mu             sync.Mutex
		wg             sync.WaitGroup
		sold, refusals int
	)
	for range r.c.atOnce(toppers) {
		wg.Go(func() {
			for ctx.Err() == nil {
				// Use a new buyer for each order, so that neither the buyer's limit nor
				// the rate limiter refuses it.
				b, err := r.crowd.fresh()
				if err != nil {
					stop(err)
					return
				}
				bought, code := r.buy(ctx, b, r.c.key("fresh-order"))
				mu.Lock()
				switch {
				case bought:
					stall.Reset(r.patience.topUp)
					// Stop if the gate never refuses.
					if sold, refusals = sold+1, 0; sold > 2*r.c.Stock+1000 {
						stop(fmt.Errorf("fresh buyers made %d orders of a sale of %d units, and were never refused with sold_out %d times in a row", sold, r.c.Stock, enoughRefusals))
					}
				case code == "sold_out":
					if refusals++; refusals >= enoughRefusals {
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

// errSoldOut is the normal end of a top-up.
var errSoldOut = errors.New("sold out")

// buy orders one unit for a fresh buyer. It also pays if the order could expire or if
// the sale takes units on payment. If the order is neither accepted nor refused, bought
// is false and code is empty.
func (r *run) buy(ctx context.Context, b client.Buyer, key string) (bought bool, code string) {
	req := r.untilKnown(ctx, judge.Fresh, b, key, 1)
	switch {
	case req.Kind == judge.Lookup && req.Refuses(): // the queue had accepted the order, so the reason does not matter
		return false, "sold_out"
	case req.Refuses():
		return false, strings.TrimPrefix(req.Reason(), "409 ")
	case !req.Announces():
		return false, ""
	case r.c.lacks(judge.Paying) || !r.c.expiring() && !r.c.onPayment():
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
