package loadtest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// followers is the pool that acts on accepted orders while the attack runs:
// it cancels or pays them after a moment, and follows 202s to their end.
//
// Where units are taken on payment, a quick server would sell them one by one to
// whoever comes first, and then refuse orders: nobody would fight for a payment.
// So all wait until those who will pay want twice what there is. Then the latest
// come first: with them are the buyers who have just ordered a second time, and
// who must not get both.
type followers struct {
	r       *run
	tasks   chan task // in order of their due times, but for 202s
	begun   bool
	waiting []task // until then
	wanted  int    // units, by those of them who will pay
}

type task struct {
	attempt
	req Request
	due time.Time
}

// closers is how many act at once, and payers where units are taken on payment.
const closers, payers = 16, 256

// newFollowers makes a pool that takes at most n offers without blocking the
// attack's loop.
func (r *run) newFollowers(n int) *followers {
	return &followers{r: r, tasks: make(chan task, n), begun: !r.c.onPayment()}
}

// offer passes on what was answered to the first request under a key.
func (f *followers) offer(a attempt, req Request) {
	switch {
	case req.Status == http.StatusAccepted:
		f.tasks <- task{a, req, req.End()}
	case req.announces() && a.fate != leave:
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

// close says that there will be no more offers; Run then ends with the last.
func (f *followers) close() {
	f.begin()
	close(f.tasks)
}

// Run works until close, or drops what is left once ctx ends: an order whose
// fate was not carried out just stays pending.
func (f *followers) Run(ctx context.Context) {
	n := closers
	if f.r.c.onPayment() {
		n = payers
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for t := range f.tasks {
				if wait(ctx, time.Until(t.due)) == nil {
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
	if !t.req.announces() {
		return
	}
	var wg sync.WaitGroup
	id := t.req.Order.ID
	click := func(cancel bool) { wg.Go(func() { f.r.closeOrder(ctx, t.buyer, id, cancel) }) }
	even, paying := t.quantity%2 == 0, f.r.c.onPayment()
	switch {
	case t.fate == cancel && even:
		// Two clicks at once: the units must come back once all the same.
		click(true)
		click(true)
	case t.fate == cancel && paying:
		click(true)
		click(false) // whichever comes first, and not both
	case t.fate == cancel:
		click(true)
	case t.fate == pay && even && paying:
		click(false) // the same reference twice takes the units once
		click(false)
	case t.fate == pay:
		if paid := f.r.closeOrder(ctx, t.buyer, id, false); paid.done() && paying {
			f.r.closeOrder(ctx, t.buyer, id, false) // once more: it hears the same
		}
	}
	wg.Wait()
}

// closeOrder cancels or pays and books the answer. Whoever is limited or hears
// that the order is still on its way asks again, and so does who hears nothing
// of a payment that takes units.
func (r *run) closeOrder(ctx context.Context, b buyer, id string, cancel bool) Closing {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for {
		// Not ctx: a closing that was sent is also waited for.
		c := r.client.close(context.WithoutCancel(ctx), b, id, cancel, "ref-"+id)
		r.ledger.closing(c)
		again := c.Status == 429 || c.Status == 503 || c.Code == "in_progress" || c.unknown() && !cancel && r.c.onPayment()
		if !again {
			return c
		}
		if wait(ctx, max(c.RetryAfter, 50*time.Millisecond)) != nil {
			return c
		}
	}
}

// follow polls the Location of a 202 until the order is stored, rejected or
// gone, and books only that last look. A queued order is none of them.
func (r *run) follow(ctx context.Context, b buyer, req Request) Request {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		look := r.client.lookup(context.WithoutCancel(ctx), b, req)
		queued := look.Status == 200 && look.Order != nil && look.Order.Status == Reserved
		again := queued || look.Status == 429 || look.Status == 0 || look.Status >= 500
		if look.Fault != "" || !again || wait(ctx, max(pause, look.RetryAfter)) != nil {
			r.ledger.request(look)
			return look
		}
	}
}
