package loadtest

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// resolve retries each order whose outcome is not known. If doubted is true, it also
// retries orders that were refused after an inconclusive answer: the server may have
// served the earlier request after that refusal. Only a retry while the sale is at rest
// settles that.
func (r *run) resolve(ctx context.Context, doubted bool) {
	if r.c.lacks(judge.Keys) { // a retry would be another order, so the rows decide
		return
	}
	var open []*judge.Outcome
	for _, o := range judge.Outcomes(r.ledger.requests.read()) {
		if !o.Known() || doubted && o.Inconclusive && o.Announced == nil {
			open = append(open, o)
		}
	}
	forEach(ctx, r, "unknown outcomes", open, func(ctx context.Context, o *judge.Outcome) {
		r.untilKnown(ctx, judge.Retry, r.crowd.named(o.Buyer), o.Key, o.Quantity)
	})
}

// resolvePayments retries each payment that takes units, received an inconclusive
// answer and is not confirmed. The reference stays the same.
func (r *run) resolvePayments(ctx context.Context) {
	if !r.c.onPayment() {
		return
	}
	byOrder := map[string][]judge.Closing{}
	for _, cl := range r.ledger.closings.read() {
		byOrder[cl.OrderID] = append(byOrder[cl.OrderID], cl)
	}
	var open []judge.Closing
	for _, calls := range byOrder {
		if p := judge.PaymentOf(calls); p.Inconclusive && p.ConfirmedAt.IsZero() {
			open = append(open, calls[0])
		}
	}
	forEach(ctx, r, "unknown payments", open, func(ctx context.Context, cl judge.Closing) {
		r.closeOrder(ctx, r.crowd.named(cl.Buyer), cl.OrderID, false)
	})
}

// untilKnown places an order with key until the answer is final, and records each try.
// A 429 is not final, because it proves nothing about earlier tries. If ctx ends, it
// returns after the call in progress. If the shop has no keys, it tries again only after a 429.
// It stops after patience.known.
func (r *run) untilKnown(ctx context.Context, kind judge.Kind, b client.Buyer, key string, quantity int) judge.Request {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		req := r.client.Order(context.WithoutCancel(ctx), kind, b, key, quantity)
		r.ledger.requests.add(req)
		limited := req.Limited()
		if req.Status == 202 {
			req = r.follow(ctx, b, req)
		}
		if req.Announces() || req.Refuses() && !req.Limited() {
			return req
		}
		kind = judge.Retry
		if client.Wait(ctx, max(pause, req.RetryAfter)) != nil || r.c.lacks(judge.Keys) && !limited {
			return req
		}
	}
}

// forEach runs one step: it calls ask for each item, for at most closers items at once.
// If ctx or the time limit of the step ends, it skips the remaining items.
func forEach[T any](ctx context.Context, r *run, step string, items []T, ask func(context.Context, T)) {
	if len(items) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	r.progress.start(step, len(items))
	defer r.progress.end()
	var asking errgroup.Group
	asking.SetLimit(r.c.atOnce(closers))
	for _, item := range items {
		asking.Go(func() error {
			if ctx.Err() == nil {
				ask(ctx, item)
			}
			r.progress.add()
			return nil
		})
	}
	_ = asking.Wait()
}
