package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// toppers is how many fresh buyers order at once.
	toppers = 8
	// enoughRefusals in a row mean that it is sold out, and not that one node
	// has yet to hear of units that came back.
	enoughRefusals = 5
)

// topUp lets fresh buyers order one unit each until several in a row hear
// sold_out: what is missing from the sold units after that is stranded. It
// returns why it could not get that far.
//
// Where orders expire meanwhile they pay at once, or theirs would expire too
// and make place for new ones for ever.
func (r *run) topUp(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The clock starts anew with every unit sold: a large rest may take long.
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
				// A new buyer each time: nobody's limit, and no limiter's
				// bucket, stands between the question and the stock.
				b, err := r.crowd.fresh()
				if err != nil {
					stop(err)
					return
				}
				got := r.buy(ctx, b, "fresh-order")
				mu.Lock()
				switch {
				case got.yes:
					stall.Reset(r.patience.topUp)
					// A gate that never says no must not keep us for ever.
					if sold, noes = sold+1, 0; sold > 2*r.c.Stock+1000 {
						stop(fmt.Errorf("%d fresh buyers bought of %d units and none heard sold_out", sold, r.c.Stock))
					}
				case got.code == "sold_out":
					if noes++; noes >= enoughRefusals {
						stop(errSoldOut)
					}
				case got.code != "":
					stop(fmt.Errorf("a fresh buyer was refused with %s", got.code))
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

// errSoldOut is how a top-up ends well.
var errSoldOut = errors.New("sold out")

// purchase is what came of buying one unit: a yes, the code of a no, or neither.
type purchase struct {
	yes  bool
	code string
}

// buy orders one unit for a fresh buyer, and pays it where it would expire, or
// where it is not bought before.
func (r *run) buy(ctx context.Context, b buyer, key string) purchase {
	req := r.untilKnown(ctx, Fresh, b, key, 1)
	switch {
	case req.Kind == Lookup && req.refuses(): // whatever it says: the gate had let it in
		return purchase{code: "sold_out"}
	case req.refuses():
		return purchase{code: req.Code}
	case !req.announces():
		return purchase{}
	case !r.c.expiring() && !r.c.onPayment():
		return purchase{yes: true}
	}
	payment := r.closeOrder(ctx, b, req.Order.ID, false)
	switch {
	case payment.done() || !r.c.onPayment():
		return purchase{yes: true}
	case payment.refuses():
		return purchase{code: payment.Code}
	}
	return purchase{}
}
