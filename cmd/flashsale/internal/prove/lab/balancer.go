package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/loadtest/client"
)

const (
	// headerTimeout is when a buyer gives up on a node that took the request:
	// above all that a healthy one may take to answer.
	headerTimeout = 3 * time.Second
	// A node that does not say in time that it is alive gets no requests.
	checkEvery, checkTimeout = 200 * time.Millisecond, 500 * time.Millisecond
	// rest is how long a node that failed is left alone, unless none is left.
	rest = time.Second
)

// A Balancer is a small proxy in front of several nodes: in turn, and on to
// the next where one breaks off. Sending an order again is harmless if it has
// an idempotency key, as all of the load test's have: that is what keys are
// for. What a silent node took is not sent to another: it may yet be carried
// out, so that a no of the other would not be the last word. Its buyer gets a
// 503 and asks later.
type Balancer struct {
	Began   chan struct{} // closed with the first order
	first   time.Time     // set before
	once    sync.Once
	server  *http.Server
	nodes   *http.Transport
	url     string
	targets []*target
	turn    atomic.Uint64
	stop    context.CancelFunc
	loops   sync.WaitGroup
}

type target struct {
	host    string
	resting atomic.Int64 // until then, in nanoseconds of the Unix epoch
}

// Balance starts a balancer on a loopback port. Close ends it.
func Balance(nodes ...string) (*Balancer, error) {
	b := &Balancer{
		Began: make(chan struct{}),
		nodes: &http.Transport{ResponseHeaderTimeout: headerTimeout, MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second},
	}
	for _, node := range nodes {
		u, err := url.Parse(node)
		if err != nil {
			return nil, fmt.Errorf("balance: %w", err)
		}
		b.targets = append(b.targets, &target{host: u.Host})
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	b.url = "http://" + listener.Addr().String()
	b.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if r.In.Method == http.MethodPost && r.In.URL.Path == "/v1/orders" {
				b.once.Do(func() {
					b.first = time.Now()
					close(b.Began)
				})
			}
			r.Out.URL.Scheme = "http"
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		},
		Transport:    b,
		ErrorHandler: unanswered,
	}}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.loops.Go(func() { _ = b.server.Serve(listener) }) // ends with Close
	for _, t := range b.targets {
		b.loops.Go(func() { b.check(ctx, t) })
	}
	return b, nil
}

// URL is where the buyers go.
func (b *Balancer) URL() string { return b.url }

// Elapsed is how long ago the first order came; 0 before it.
func (b *Balancer) Elapsed() time.Duration {
	select {
	case <-b.Began:
		return time.Since(b.first)
	default:
		return 0
	}
}

// Close breaks what is under way.
func (b *Balancer) Close() error {
	b.stop()
	err := b.server.Close()
	b.loops.Wait()
	b.nodes.CloseIdleConnections()
	return err
}

// check asks a node now and then whether it is alive: any answer will do.
func (b *Balancer) check(ctx context.Context, t *target) {
	for client.Wait(ctx, checkEvery) == nil {
		asking, cancel := context.WithTimeout(ctx, checkTimeout)
		req, err := http.NewRequestWithContext(asking, http.MethodGet, "http://"+t.host+"/livez", nil)
		if err == nil {
			var res *http.Response
			if res, err = b.nodes.RoundTrip(req); err == nil {
				err = res.Body.Close()
			}
		}
		cancel()
		if err != nil {
			t.leave()
		}
	}
}

// leave leaves a node alone for a while.
func (t *target) leave() { t.resting.Store(time.Now().Add(rest).UnixNano()) }

// RoundTrip asks one node after the other until one answers or is silent.
func (b *Balancer) RoundTrip(r *http.Request) (res *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for range 2 * len(b.targets) {
		t := b.next()
		out := r.Clone(r.Context()) // the transport may still read the one before
		out.URL.Host, out.Body = t.host, io.NopCloser(bytes.NewReader(body))
		if res, err = b.nodes.RoundTrip(out); err == nil {
			return res, nil
		}
		if r.Context().Err() != nil { // the buyer has gone
			return nil, err
		}
		t.leave()
		if isSilence(err) {
			return nil, err
		}
	}
	return nil, errors.Join(errors.New("no node answers"), err)
}

// next is the next target that does not rest, or just the next.
func (b *Balancer) next() *target {
	now := time.Now().UnixNano()
	for range b.targets {
		if t := b.targets[b.turn.Add(1)%uint64(len(b.targets))]; t.resting.Load() < now {
			return t
		}
	}
	return b.targets[b.turn.Add(1)%uint64(len(b.targets))]
}

func isSilence(err error) bool {
	timeout, is := errors.AsType[net.Error](err)
	return is && timeout.Timeout()
}

// unanswered tells the buyer of a silent node that the outcome is not known.
// Breaking off without a word would not do: Go's client would send the order
// again by itself. Where no node is left, there is nobody to tell anything.
func unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if !isSilence(err) || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.Header().Set("X-Request-Id", "balancer")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"title":"Service Unavailable","status":503,"code":"unavailable","detail":"The node that has the request does not answer."}`)
}
