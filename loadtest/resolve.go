package loadtest

import (
	"context"
	"sync"
	"time"
)

// resolve asks again, under the same key, for every order whose outcome its
// client does not know. With doubted, it also asks once more for those that
// were refused after an unknown answer: the lost request may have been served
// behind the refusal, which is certain only once the sale is at rest.
func (r *run) resolve(ctx context.Context, doubted bool) {
	requests, _ := r.ledger.read()
	var open []*outcome
	for _, o := range outcomes(requests) {
		if !o.known() || doubted && o.doubted && o.announced == nil {
			open = append(open, o)
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	r.progress.start("unknown outcomes", len(open))
	defer r.progress.end()
	each(closers, open, func(o *outcome) {
		if ctx.Err() == nil {
			r.untilKnown(ctx, Retry, r.crowd.named(o.buyer), o.key, o.quantity)
		}
		r.progress.add()
	})
}

// resolvePayments pays again, under the same reference, what takes units and was
// not answered, or was refused after an unknown answer.
func (r *run) resolvePayments(ctx context.Context) {
	_, closings := r.ledger.read()
	of := map[string][]Closing{}
	for _, cl := range closings {
		of[cl.OrderID] = append(of[cl.OrderID], cl)
	}
	var open []Closing
	for _, calls := range of {
		var p payment
		if p.fold(calls); p.doubted && p.told.IsZero() {
			open = append(open, calls[0])
		}
	}
	if len(open) == 0 || !r.c.onPayment() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	r.progress.start("unknown payments", len(open))
	defer r.progress.end()
	each(closers, open, func(cl Closing) {
		if ctx.Err() == nil {
			r.closeOrder(ctx, r.crowd.named(cl.Buyer), cl.OrderID, false)
		}
		r.progress.add()
	})
}

// untilKnown orders under key until the answer is final, and books each try.
// 429 is not final here: it says nothing about what the key stands for. ctx
// ends the asking, but never hangs up: an order must not be left half asked.
func (r *run) untilKnown(ctx context.Context, kind Kind, b buyer, key string, quantity int) Request {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		req := r.client.order(context.WithoutCancel(ctx), kind, b, key, quantity)
		r.ledger.request(req)
		if req.Status == 202 {
			req = r.follow(ctx, b, req)
		}
		if req.announces() || req.refuses() && !req.limited() {
			return req
		}
		kind = Retry
		if wait(ctx, max(pause, req.RetryAfter)) != nil {
			return req
		}
	}
}

// each calls f for every item, at most n at once, and waits for all.
func each[T any](n int, items []T, f func(T)) {
	queue := make(chan T)
	var wg sync.WaitGroup
	for range min(n, len(items)) {
		wg.Go(func() {
			for item := range queue {
				f(item)
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	wg.Wait()
}
