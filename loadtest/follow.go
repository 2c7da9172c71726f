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

// followers act on accepted orders during the attack: they cancel or pay them
// after a moment, and look up 202s until their outcome is known.
//
// Where units are taken on payment, a quick server would sell all units before
// two payments ever meet. So all wait until those who will pay want twice the
// stock. Then the latest come first: among them are buyers who have just ordered
// a second time, and must not get both orders.
type followers struct {
	r       *run
	tasks   chan task // in order of their due times, except for 202s
	begun   bool
	waiting []task // until enough units are wanted
	wanted  int    // units, by those in waiting who will pay
}

type task struct {
	attempt
	req judge.Request
	due time.Time
}

// closers is how many act at once; payers, where units are taken on payment.
const closers, payers = 16, 256

// newFollowers makes followers that take up to n offers without blocking the
// attack.
func (r *run) newFollowers(n int) *followers {
	return &followers{r: r, tasks: make(chan task, n), begun: !r.c.onPayment()}
}

// offer passes on the answer to the first request under a key.
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

// close says that no more offers come. Run ends after the last one.
func (f *followers) close() {
	f.begin()
	close(f.tasks)
}

// Run works until close. When ctx ends it drops what is left: those orders stay
// pending.
func (f *followers) Run(ctx context.Context) {
	n := closers
	if f.r.c.onPayment() {
		n = payers
	}
	var wg sync.WaitGroup
	for range n {
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
		// Two clicks at once: the units must come back only once.
		click(true)
		click(true)
	case t.fate == cancel && paying:
		click(true)
		click(false) // one of the two must win, and not both
	case t.fate == cancel:
		click(true)
	case t.fate == pay && even && paying:
		click(false) // the same reference twice takes the units once
		click(false)
	case t.fate == pay:
		if paid := f.r.closeOrder(ctx, t.buyer, id, false); paid.Done() && paying {
			f.r.closeOrder(ctx, t.buyer, id, false) // paid again, it must hear the same
		}
	}
	wg.Wait()
}

// closeOrder cancels or pays an order and records the answer. It asks again
// after 429, 503 and in_progress, and after no answer to a payment that takes
// units.
func (r *run) closeOrder(ctx context.Context, b client.Buyer, id string, cancel bool) judge.Closing {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for {
		// Not ctx: once sent, a call is waited for.
		c := r.client.Close(context.WithoutCancel(ctx), b, id, cancel, "ref-"+id)
		r.ledger.closings.add(c)
		retry := c.Status == 429 || c.Status == 503 || c.Code == "in_progress" || c.Unknown() && !cancel && r.c.onPayment()
		if !retry {
			return c
		}
		if client.Wait(ctx, max(c.RetryAfter, 50*time.Millisecond)) != nil {
			return c
		}
	}
}

// follow polls the Location of a 202 until the order is stored, rejected or
// gone. It records only the last lookup.
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

// thinkTime is how long a buyer waits before paying or cancelling an accepted
// order: long enough that units come back while others still want them. Where
// units are taken on payment it is 0.
func (c Config) thinkTime() time.Duration {
	if c.onPayment() {
		return 0
	}
	return min(c.Duration/10, 200*time.Millisecond)
}
