package loadtest

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// followers is the pool that acts on accepted orders while the attack runs:
// it cancels or pays them after a moment, and follows 202s to their end.
type followers struct {
	r     *run
	tasks chan task // in order of their due times, but for 202s
}

type task struct {
	attempt
	req Request
	due time.Time
}

// closers is how many act at once.
const closers = 16

// newFollowers makes a pool that takes at most n offers without blocking the
// attack's loop.
func (r *run) newFollowers(n int) *followers {
	return &followers{r: r, tasks: make(chan task, n)}
}

// offer passes on what was answered to the first request under a key.
func (f *followers) offer(a attempt, req Request) {
	switch {
	case req.Status == http.StatusAccepted:
		f.tasks <- task{a, req, req.End()}
	case req.announces() && a.fate != leave:
		f.tasks <- task{a, req, req.End().Add(f.r.c.thinkTime())}
	}
}

// close says that there will be no more offers; Run then ends with the last.
func (f *followers) close() { close(f.tasks) }

// Run works until close, or drops what is left once ctx ends: an order whose
// fate was not carried out just stays pending.
func (f *followers) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range closers {
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
	id := t.req.Order.ID
	switch {
	case t.fate == pay:
		f.r.closeOrder(ctx, t.buyer, id, false)
	case t.fate == cancel && t.quantity%2 == 0:
		// Two clicks at once: the units must come back once all the same.
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { f.r.closeOrder(ctx, t.buyer, id, true) })
		}
		wg.Wait()
	case t.fate == cancel:
		f.r.closeOrder(ctx, t.buyer, id, true)
	}
}

// closeOrder cancels or pays and books the answer. Whoever is limited or hears
// that the order is still on its way asks again.
func (r *run) closeOrder(ctx context.Context, b buyer, id string, cancel bool) Closing {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	for {
		// Not ctx: a closing that was sent is also waited for.
		c := r.client.close(context.WithoutCancel(ctx), b, id, cancel, "ref-"+id)
		r.ledger.closing(c)
		if c.Status != 429 && c.Status != 503 && c.Code != "in_progress" {
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
