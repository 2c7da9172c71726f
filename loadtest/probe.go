package loadtest

import (
	"context"
	"fmt"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// probe measures, on a sold-out sale, how soon a cancelled unit is back on sale.
// It cancels a pending order, waits until the audit shows the units, and lets
// fresh buyers buy them. While a unit is free, a buyer at the limit asks for it,
// and a fresh buyer's key is repeated: the attack itself may have sold out before
// it exercised these two.
//
// Where orders expire at the same time, their units may be taken for the
// cancelled ones. The times are a lower bound then.
func (r *run) probe(ctx context.Context) error {
	if r.c.onPayment() { // a cancelled order has no units
		r.repeat(ctx)
		return nil
	}
	if r.c.Cancels == 0 {
		return nil
	}
	open := r.ledger.open()
	// The largest order is not cancelled, because its buyer may be at the limit, which a
	// further order of that buyer tests.
	probes := open[:min(r.patience.probes, max(len(open)-1, min(1, len(open))))]
	full := r.atLimit(open, probes)
	r.progress.start("restore probes", len(probes))
	defer r.progress.end()
	for _, o := range probes {
		before, err := r.operator.Audit(ctx)
		if err != nil {
			return fmt.Errorf("restore probe: %w", err)
		}
		c := r.closeOrder(ctx, r.crowd.named(o.Buyer), o.IDs[0], true)
		if !c.Done() {
			continue // it has expired, or an earlier call without an answer has paid it
		}
		took, err := r.backOnSale(ctx, c, before.Available+o.Quantity)
		if err != nil {
			return err
		}
		r.restores = append(r.restores, took)
		if len(full) > 0 && r.c.SecondOrders > 0 {
			b := full[len(full)-1]
			full = full[:len(full)-1]
			r.untilKnown(ctx, judge.Second, r.crowd.named(b), "one-more", 1)
		}
		for range o.Quantity {
			if sold, err := r.rebuy(ctx); err != nil || !sold {
				return err // the next top-up and the audit will find the unit
			}
		}
		r.progress.add()
	}
	return nil
}

// backOnSale waits until the audit shows want units. It returns the time since
// the answer to the cancellation.
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
			return 0, fmt.Errorf("restore probe: order %s was cancelled, and its units were not back after %v", c.OrderID, r.patience.probe)
		}
	}
}

// rebuy sells one unit to a fresh buyer. It tries for a second: a node may answer
// sold_out for a moment after units came back.
func (r *run) rebuy(ctx context.Context) (bool, error) {
	b, err := r.crowd.fresh()
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	for n := 1; ; n++ {
		key := fmt.Sprintf("rebuy-%d", n)
		if yes, _ := r.buy(ctx, b, key); yes {
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

// repeat asks again under the keys of some accepted orders: the replays of the
// attack may all have been sent before the first answers.
func (r *run) repeat(ctx context.Context) {
	asked := 0
	for _, o := range judge.Outcomes(r.ledger.requests.read()) {
		if r.c.Replays > 0 && o.Announced != nil && asked < r.patience.probes {
			r.untilKnown(ctx, judge.Replay, r.crowd.named(o.Buyer), o.Key, o.Quantity)
			asked++
		}
	}
}

// replay asks again under the key of a new order. Another node may answer
// sold_out for a moment; then it asks once more.
func (r *run) replay(ctx context.Context, b client.Buyer, key string) {
	req := r.untilKnown(ctx, judge.Replay, b, key, 1)
	if req.Code == "sold_out" && client.Wait(ctx, judge.StaleFor) == nil {
		r.untilKnown(ctx, judge.Replay, b, key, 1)
	}
}

// atLimit lists buyers who hold exactly as many units as they may. It leaves out
// the buyers whose orders are probed.
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
		if n == r.c.PerBuyerLimit {
			full = append(full, buyer)
		}
	}
	return full
}
