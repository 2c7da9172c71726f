package loadtest

import (
	"context"
	"fmt"
	"time"
)

// probe measures, on a sold-out sale, how soon a cancelled unit is back: it
// cancels one pending order, watches the audit's available, and lets a fresh
// buyer take the units again. While one is free it also asks for it with a
// buyer at the limit, and repeats a fresh buyer's key: the two refusals that
// the attack itself may have come too late for.
//
// Where orders expire meanwhile, their units can be mistaken for the cancelled
// ones; the figures are then a lower bound.
func (r *run) probe(ctx context.Context) error {
	if r.c.onPayment() { // a cancelled order has nothing to give back
		r.repeat(ctx)
		return nil
	}
	if r.c.Cancels == 0 {
		return nil
	}
	open := r.ledger.open()
	probes := open[:min(len(open), r.patience.probes)]
	full := r.atLimit(open, probes)
	r.progress.start("restore probes", len(probes))
	defer r.progress.end()
	for _, o := range probes {
		before, err := r.operator.audit(ctx)
		if err != nil {
			return fmt.Errorf("restore probe: %w", err)
		}
		c := r.closeOrder(ctx, r.crowd.named(o.buyer), o.id, true)
		if !c.done() {
			continue // expired under our hands, or paid by an earlier unknown call
		}
		took, err := r.backOnSale(ctx, c, before.Available+o.quantity)
		if err != nil {
			return err
		}
		r.restores = append(r.restores, took)
		if len(full) > 0 && r.c.SecondOrders > 0 {
			b := full[len(full)-1]
			full = full[:len(full)-1]
			r.untilKnown(ctx, Second, r.crowd.named(b), "one-more", 1)
		}
		for range o.quantity {
			if again, err := r.rebuy(ctx); err != nil || !again {
				return err // not to be had: the next top-up and the audit will tell
			}
		}
		r.progress.add()
	}
	return nil
}

// backOnSale waits for the audit to show want units and says how long that
// took from the answer to the cancellation.
func (r *run) backOnSale(ctx context.Context, c Closing, want int) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, r.patience.probe)
	defer stop()
	from := c.End()
	for {
		a, err := r.operator.audit(ctx)
		if err == nil && a.Available >= want {
			return time.Since(from), nil
		}
		if wait(ctx, 2*time.Millisecond) != nil {
			return 0, fmt.Errorf("restore probe: order %s was cancelled, and its units were not back after %v", c.OrderID, r.patience.probe)
		}
	}
}

// rebuy sells one unit to a fresh buyer. A node may answer sold_out for a
// moment after units came back, so it tries for a second.
func (r *run) rebuy(ctx context.Context) (bool, error) {
	b, err := r.crowd.fresh()
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	for n := 1; ; n++ {
		key := fmt.Sprintf("rebuy-%d", n)
		if r.buy(ctx, b, key).yes {
			if r.c.Replays > 0 {
				r.replay(ctx, b, key)
			}
			return true, nil
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return false, nil
		}
	}
}

// repeat asks again under the keys of some accepted orders: the attack's own
// replays may have come before the answers.
func (r *run) repeat(ctx context.Context) {
	requests, _ := r.ledger.read()
	asked := 0
	for _, o := range outcomes(requests) {
		if r.c.Replays > 0 && o.announced != nil && asked < r.patience.probes {
			r.untilKnown(ctx, Replay, r.crowd.named(o.buyer), o.key, o.quantity)
			asked++
		}
	}
}

// replay asks again under the key of an order just made. Another node may
// answer sold_out for a moment, so that is no answer yet.
func (r *run) replay(ctx context.Context, b buyer, key string) {
	req := r.untilKnown(ctx, Replay, b, key, 1)
	if req.Code == "sold_out" && wait(ctx, staleFor) == nil {
		r.untilKnown(ctx, Replay, b, key, 1)
	}
}

// atLimit lists buyers who hold exactly as much as they may and whom no probe
// will touch.
func (r *run) atLimit(open, probes []openOrder) []string {
	units := map[string]int{}
	for _, o := range open {
		units[o.buyer] += o.quantity
	}
	for _, o := range probes {
		delete(units, o.buyer)
	}
	var full []string
	for buyer, n := range units {
		if n == r.c.PerBuyerLimit {
			full = append(full, buyer)
		}
	}
	return full
}
