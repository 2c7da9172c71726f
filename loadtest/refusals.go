package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// refusals stops a run whose server is gone: the server has refused every connection for
// some time. A server that is slow or restarts is waited for.
type refusals struct {
	after time.Duration
	stop  func(cause error)
	once  bool // no order is sent twice, because the shop has no keys; set before the first order

	mu    sync.Mutex
	since time.Time // start of the current series of refusals; zero if there is none
}

// record records the result of a call.
func (r *refusals) record(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // by the run itself
	case !errors.Is(err, syscall.ECONNREFUSED):
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = time.Now()
	case time.Since(r.since) >= r.after:
		r.stop(fmt.Errorf("every connection to the server was refused for %v", r.after))
	}
}

// watch makes conns record its calls.
func (r *refusals) watch(conns *http.Client) *http.Client {
	conns.Transport = recording{conns.Transport.(*http.Transport), r}
	return conns
}

type recording struct {
	*http.Transport
	refusals *refusals
}

// RoundTrip implements http.RoundTripper.
func (t recording) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.refusals.once {
		once := *req
		once.GetBody = nil // net/http repeats an order with a key only if it can read the body again
		req = &once
	}
	res, err := t.Transport.RoundTrip(req)
	t.refusals.record(err)
	return res, err
}
