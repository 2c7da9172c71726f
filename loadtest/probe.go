package loadtest

import (
	"context"
	"fmt"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// probe measures how soon a cancelled unit of a sold-out sale is back on sale. It
// cancels a pending order, waits until the audit shows its units as available, and lets
// fresh buyers buy them. While a unit is available, a buyer at the limit orders it, and
// a fresh buyer's key is repeated, because the attack may not have put these two to the
// test.
//
// If orders expire at the same time, probe may mistake their units for the cancelled
// ones. The measured times are then lower bounds.
func (r *run) probe(ctx context.Context) error {
	if r.c.onPayment() { // cancelled orders hold no units
		r.repeat(ctx)
		return nil
	}
	if r.c.CancelShare == 0 {
		return nil
	}
	open := r.ledger.open()
	// Do not cancel the largest order. Its buyer may be at the limit, and then orders
	// one unit more.
	probes := open[:min(r.patience.probes, max(len(open)-1, min(1, len(open))))]
	full := r.atLimit(open, probes)
	counted := !r.c.lacks(judge.Auditing) && !r.c.lacks(judge.Counter) // otherwise the available units follow from the rows
	r.progress.start("release probes", len(probes))
	defer r.progress.end()
	for _, o := range probes {
		var before judge.Audit
		if counted {
			var err error
			if before, err = r.operator.Audit(ctx); err != nil {
				return fmt.Errorf("probe how fast units are released: %w", err)
			}
		}
		c := r.closeOrder(ctx, r.crowd.named(o.Buyer), o.IDs[0], true)
		if !c.Done() {
			continue // the order has expired, or was paid by an earlier call without an answer
		}
		if counted {
			took, err := r.backOnSale(ctx, c, before.Available+o.Quantity)
			if err != nil {
				return err
			}
			r.releases = append(r.releases, took)
		}
		if len(full) > 0 && r.c.SecondOrders > 0 {
			b := full[len(full)-1]
			full = full[:len(full)-1]
			r.untilKnown(ctx, judge.Second, r.crowd.named(b), r.c.key("one-more"), 1)
		}
		for range o.Quantity {
			if sold, err := r.rebuy(ctx); err != nil || !sold {
				return err // the next top-up finds the unit
			}
		}
		r.progress.add()
	}
	return nil
}

// backOnSale waits until the audit shows want available units. It returns the time
// since the cancellation was confirmed.
func (r *run) backOnSale(ctx context.Context, c judge.Closing, want int) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, r.patience.probe)
	defer stop()
	from := c.End()
	for {
		a, err := r.operator.Audit(ctx)
		if err == nil && a.Available >= want {
			return time.Since(from), nil
		}
		if client.Wait(ctx, 2*time.Millisecond) != nil {
			return 0, fmt.Errorf("probe how fast units are released: order %s was cancelled, but its units were not available after %v", c.OrderID, r.patience.probe)
		}
	}
}

// rebuy sells one unit to a fresh buyer. It retries for a second, because a node may
// answer sold_out for a moment after units were released.
func (r *run) rebuy(ctx context.Context) (bool, error) {
	b, err := r.crowd.fresh()
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	for n := 1; ; n++ {
		key := r.c.key(fmt.Sprintf("rebuy-%d", n))
		if bought, _ := r.buy(ctx, b, key); bought {
			if r.c.Replays > 0 {
				r.replay(ctx, b, key)
			}
			return true, nil
		}
		if client.Wait(ctx, 20*time.Millisecond) != nil {
			return false, nil
		}
	}
}

// repeat replays some accepted orders. The attack may have sent all its replays before
// the first answers.
func (r *run) repeat(ctx context.Context) {
	replayed := 0
	for _, o := range judge.Outcomes(r.ledger.requests.read()) {
		if r.c.Replays > 0 && o.Announced != nil && replayed < r.patience.probes {
			r.untilKnown(ctx, judge.Replay, r.crowd.named(o.Buyer), o.Key, o.Quantity)
			replayed++
		}
	}
}

// replay repeats the key of a new order. If the answer is sold_out, it repeats the key
// once more after judge.StaleFor.
func (r *run) replay(ctx context.Context, b client.Buyer, key string) {
	req := r.untilKnown(ctx, judge.Replay, b, key, 1)
	if req.Code == "sold_out" && client.Wait(ctx, judge.StaleFor) == nil {
		r.untilKnown(ctx, judge.Replay, b, key, 1)
	}
}

// atLimit returns the buyers whose open orders reach the limit exactly, without the
// buyers of probes.
func (r *run) atLimit(open, probes []*judge.Outcome) []string {
	units := map[string]int{}
	for _, o := range open {
		units[o.Buyer] += o.Quantity
	}
	for _, o := range probes {
		delete(units, o.Buyer)
	}
	var full []string
	for buyer, n := range units {
		if n == r.c.UnitsPerBuyer {
			full = append(full, buyer)
		}
	}
	return full
}
