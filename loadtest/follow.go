package loadtest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// followers act on accepted orders during the attack. They cancel or pay orders after a
// short time, and look up 202s until the outcome is known.
//
// If the sale takes units on payment, a fast server would sell all units before two
// payments compete. So payments start once the waiting payments want twice the stock.
// The latest orders are then paid first, because their buyers may just have ordered a
// second time and must not get both orders.
type followers struct {
	r       *run
	tasks   chan task // ordered by due time, except for 202s
	begun   bool
	waiting []task // tasks that are held back
	wanted  int    // units that the waiting payments want
}

type task struct {
	attempt
	req judge.Request
	due time.Time
}

// closers is the number of tasks at once. If the sale takes units on payment, it is
// payers.
const closers, payers = 16, 256

// newFollowers returns followers that accept n offers without blocking the attack.
func (r *run) newFollowers(n int) *followers {
	return &followers{r: r, tasks: make(chan task, n), begun: !r.c.onPayment()}
}

// offer hands over the answer to the first request with a key.
func (f *followers) offer(a attempt, req judge.Request) {
	switch {
	case req.Status == http.StatusAccepted:
		f.tasks <- task{a, req, req.End()}
	case req.Announces() && a.fate != leave:
		t := task{a, req, req.End().Add(f.r.c.thinkTime())}
		if f.begun {
			f.tasks <- t
			return
		}
		f.waiting = append(f.waiting, t)
		if a.fate == pay {
			f.wanted += a.quantity
		}
		if f.wanted >= 2*f.r.c.Stock {
			f.begin()
		}
	}
}

func (f *followers) begin() {
	for _, t := range slices.Backward(f.waiting) {
		f.tasks <- t
	}
	f.begun, f.waiting = true, nil
}

// close must be called after the last offer. Run then returns once all tasks are done.
func (f *followers) close() {
	f.begin()
	close(f.tasks)
}

// Run works on tasks until close. If ctx ends, the remaining tasks are dropped and
// their orders stay pending.
func (f *followers) Run(ctx context.Context) {
	n := closers
	if f.r.c.onPayment() {
		n = payers
	}
	var wg sync.WaitGroup
	for range f.r.c.atOnce(n) {
		wg.Go(func() {
			for t := range f.tasks {
				if client.Wait(ctx, time.Until(t.due)) == nil {
					f.act(ctx, t)
				}
			}
		})
	}
	wg.Wait()
}

func (f *followers) act(ctx context.Context, t task) {
	if t.req.Status == http.StatusAccepted {
		t.req = f.r.follow(ctx, t.buyer, t.req)
	}
	if !t.req.Announces() {
		return
	}
	var wg sync.WaitGroup
	id := t.req.Order.ID
	click := func(cancel bool) { wg.Go(func() { f.r.closeOrder(ctx, t.buyer, id, cancel) }) }
	even, paying := t.quantity%2 == 0, f.r.c.onPayment()
	switch {
	case t.fate == cancel && even:
		// Cancel twice at once: the units may be released only once.
		click(true)
		click(true)
	case t.fate == cancel && paying && !f.r.c.lacks(judge.CancelOrPay):
		click(true)
		click(false) // only one of the two clicks may take effect
	case t.fate == cancel:
		click(true)
	case t.fate == pay && even && paying:
		click(false) // the same reference may take the units only once
		click(false)
	case t.fate == pay:
		if paid := f.r.closeOrder(ctx, t.buyer, id, false); paid.Done() && paying {
			f.r.closeOrder(ctx, t.buyer, id, false) // a repeated payment must be confirmed again
		}
	}
	wg.Wait()
}

// closeOrder cancels or pays an order and records each answer. It retries after 429,
// 503 and in_progress, and after a lost answer to a payment that takes units.
func (r *run) closeOrder(ctx context.Context, b client.Buyer, id string, cancel bool) judge.Closing {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for {
		// ctx ends the retries, but does not abort a call.
		c := r.client.Close(context.WithoutCancel(ctx), b, id, cancel, "ref-"+id)
		r.ledger.closings.add(c)
		retry := c.Status == 429 || c.Status == 503 || c.Code == "in_progress" || c.Inconclusive() && !cancel && r.c.onPayment()
		if !retry {
			return c
		}
		if client.Wait(ctx, max(c.RetryAfter, 50*time.Millisecond)) != nil {
			return c
		}
	}
}

// follow polls the Location of a 202 until the order is stored, rejected or lost. It
// records only the last lookup.
func (r *run) follow(ctx context.Context, b client.Buyer, req judge.Request) judge.Request {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		look := r.client.Lookup(context.WithoutCancel(ctx), b, req)
		queued := look.Status == 200 && look.Order != nil && look.Order.Status == judge.Reserved
		retry := queued || look.Status == 429 || look.Status == 0 || look.Status >= 500
		if look.Fault != "" || !retry || client.Wait(ctx, max(pause, look.RetryAfter)) != nil {
			r.ledger.requests.add(look)
			return look
		}
	}
}

// thinkTime returns the time between an acceptance and its payment or cancellation, so
// that units are released while other buyers still want them. It is 0 if the sale takes
// units on payment.
func (c Config) thinkTime() time.Duration {
	if c.onPayment() {
		return 0
	}
	return min(c.Duration/10, 200*time.Millisecond)
}
