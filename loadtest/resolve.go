package loadtest

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// resolve asks again, under the same key, for each order whose outcome its
// client does not know. With doubted, it also asks again for orders that were
// refused after an unknown answer: the lost request may have been served after
// the refusal. That is certain only when the sale is at rest.
func (r *run) resolve(ctx context.Context, doubted bool) {
	var open []*judge.Outcome
	for _, o := range judge.Outcomes(r.ledger.requests.read()) {
		if !o.Known() || doubted && o.Doubted && o.Announced == nil {
			open = append(open, o)
		}
	}
	forEach(ctx, r, "unknown outcomes", open, func(ctx context.Context, o *judge.Outcome) {
		r.untilKnown(ctx, judge.Retry, r.crowd.named(o.Buyer), o.Key, o.Quantity)
	})
}

// resolvePayments pays again, under the same reference, where a payment takes
// units and was not answered, or was refused after an unknown answer.
func (r *run) resolvePayments(ctx context.Context) {
	if !r.c.onPayment() {
		return
	}
	of := map[string][]judge.Closing{}
	for _, cl := range r.ledger.closings.read() {
		of[cl.OrderID] = append(of[cl.OrderID], cl)
	}
	var open []judge.Closing
	for _, calls := range of {
		if p := judge.PaymentOf(calls); p.Doubted && p.Told.IsZero() {
			open = append(open, calls[0])
		}
	}
	forEach(ctx, r, "unknown payments", open, func(ctx context.Context, cl judge.Closing) {
		r.closeOrder(ctx, r.crowd.named(cl.Buyer), cl.OrderID, false)
	})
}

// untilKnown orders under key until the answer is final, and records each try.
// 429 is not final: it says nothing about earlier tries. The end of ctx ends the
// trying, but it interrupts no request.
func (r *run) untilKnown(ctx context.Context, kind judge.Kind, b client.Buyer, key string, quantity int) judge.Request {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		req := r.client.Order(context.WithoutCancel(ctx), kind, b, key, quantity)
		r.ledger.requests.add(req)
		if req.Status == 202 {
			req = r.follow(ctx, b, req)
		}
		if req.Announces() || req.Refuses() && !req.Limited() {
			return req
		}
		kind = judge.Retry
		if client.Wait(ctx, max(pause, req.RetryAfter)) != nil {
			return req
		}
	}
}

// forEach is a phase of the run. It calls ask for each item, for as many as
// closers at once. When ctx or the time for this phase ends, it drops the rest.
func forEach[T any](ctx context.Context, r *run, phase string, items []T, ask func(context.Context, T)) {
	if len(items) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	r.progress.start(phase, len(items))
	defer r.progress.end()
	var asking errgroup.Group
	asking.SetLimit(closers)
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
