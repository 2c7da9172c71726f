package loadtest

import (
	"context"
	"net/http"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// feedWait is the longest time for which the server may hold an empty page.
const feedWait = 2 * time.Second

// A feed reads the feed of changes, once for all sales of a load test.
type feed struct {
	client.Consumer
	operator client.Operator
	wait     time.Duration // time for which the server may hold an empty page during the attack
	none     bool          // the server has no feed
}

// read reads the next page. A first page that is not found means that there is no feed.
func (f *feed) read(ctx context.Context, wait time.Duration) (n int, err error) {
	n, err = f.Read(ctx, &f.operator, wait)
	f.none = f.none || f.Cursor == "" && client.StatusOf(err) == http.StatusNotFound
	return n, err
}

// follow reads the feed until ctx ends.
func (f *feed) follow(ctx context.Context) {
	for ctx.Err() == nil && !f.none {
		if n, _ := f.read(ctx, f.wait); n == 0 { // after an error, read the page again
			_ = client.Wait(ctx, 100*time.Millisecond)
		}
	}
}

// readFeed reads the feed to its end and reports whether it has then reported all rows. Changes
// are reported some time after they happen, so readFeed waits for them.
func (r *run) readFeed(ctx context.Context, rows []judge.Row) bool {
	ctx, stop := context.WithTimeout(ctx, 10*r.patience.feed) // the feed may never be empty, because other sales change, too
	defer stop()
	r.feed.Unread = ""
	for last := time.Now(); ; {
		n, err := r.feed.read(ctx, 0)
		switch {
		case r.feed.none || err == nil && n == 0 && len(r.feed.Untold(rows)) == 0:
			return true
		case n > 0:
			last = time.Now()
		case time.Since(last) > r.patience.feed || client.Wait(ctx, r.patience.rest/5) != nil:
			if err != nil {
				r.feed.Unread = err.Error()
			}
			return false
		}
	}
}
