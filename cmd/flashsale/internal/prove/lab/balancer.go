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
	// headerTimeout is the longest wait for the answer of a node. It is longer than a healthy
	// node takes.
	headerTimeout = 3 * time.Second
	// A node that does not answer a check in time gets no requests for avoidFor.
	checkEvery, checkTimeout = 200 * time.Millisecond, 500 * time.Millisecond
	// avoidFor is the time without requests for a node that failed, unless all nodes failed.
	avoidFor = time.Second
)

// A Balancer is a small proxy in front of several nodes, which it uses in turn.
//
// If a node breaks a connection, the balancer sends the request to the next node. That is
// safe because all orders of the load test have an idempotency key. If a node does not
// answer, the balancer answers 503 and does not try another node: the silent node may
// still execute the request, so a refusal of another node would not be final.
type Balancer struct {
	Began   chan struct{} // closed by the first order
	first   time.Time     // time of the first order; set before Began is closed
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
	host       string
	avoidUntil atomic.Int64 // Unix time in nanoseconds
}

// Balance starts a balancer of nodes, which are URLs, on a loopback port.
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
		ErrorHandler: answerUnknown,
	}}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.loops.Go(func() { _ = b.server.Serve(listener) }) // ends with Close
	for _, t := range b.targets {
		b.loops.Go(func() { b.check(ctx, t) })
	}
	return b, nil
}

// URL returns the URL for buyers.
func (b *Balancer) URL() string { return b.url }

// Elapsed returns the time since the first order, or 0 before it.
func (b *Balancer) Elapsed() time.Duration {
	select {
	case <-b.Began:
		return time.Since(b.first)
	default:
		return 0
	}
}

// Close stops the balancer and breaks its connections.
func (b *Balancer) Close() error {
	b.stop()
	err := b.server.Close()
	b.loops.Wait()
	b.nodes.CloseIdleConnections()
	return err
}

// check polls a node until ctx ends. Any answer shows that the node is alive.
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
			t.avoid()
		}
	}
}

// avoid stops requests to a node for avoidFor.
func (t *target) avoid() { t.avoidUntil.Store(time.Now().Add(avoidFor).UnixNano()) }

// RoundTrip tries the nodes one after the other until one answers or is silent.
func (b *Balancer) RoundTrip(r *http.Request) (res *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for range 2 * len(b.targets) {
		t := b.next()
		out := r.Clone(r.Context()) // the transport may still read the previous request
		out.URL.Host, out.Body = t.host, io.NopCloser(bytes.NewReader(body))
		if res, err = b.nodes.RoundTrip(out); err == nil {
			return res, nil
		}
		if r.Context().Err() != nil { // the buyer has gone
			return nil, err
		}
		t.avoid()
		if isSilence(err) {
			return nil, err
		}
	}
	return nil, errors.Join(errors.New("no node answers: all nodes of the balancer are down or silent"), err)
}

// next returns the next target that is not avoided. If all are, it returns the next one.
func (b *Balancer) next() *target {
	now := time.Now().UnixNano()
	for range b.targets {
		if t := b.targets[b.turn.Add(1)%uint64(len(b.targets))]; t.avoidUntil.Load() < now {
			return t
		}
	}
	return b.targets[b.turn.Add(1)%uint64(len(b.targets))]
}

func isSilence(err error) bool {
	timeout, is := errors.AsType[net.Error](err)
	return is && timeout.Timeout()
}

// answerUnknown answers 503 if a node is silent, because the outcome of the request is not known.
// Without an answer, Go's client would send the order again by itself. For any other error, such
// as no reachable node, answerUnknown closes the client's connection.
func answerUnknown(w http.ResponseWriter, r *http.Request, err error) {
	if !isSilence(err) || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.Header().Set("X-Request-Id", "balancer")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"title":"Service Unavailable","status":503,"code":"unavailable","detail":"The node that has the request does not answer."}`)
}
