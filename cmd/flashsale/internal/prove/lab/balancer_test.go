package lab

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// If a node breaks the connection, the same request goes to the next node. Without any
// node there is no answer.
func TestBalancerRetriesAfterBrokenConnection(t *testing.T) {
	var bodies []string
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b)+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("X-Forwarded-For"))
		w.WriteHeader(http.StatusCreated)
	}))
	dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler) // breaks the connection after reading the request
	}))
	defer dead.Close()
	b := balanced(t, alive.URL, dead.URL)
	if b.Elapsed() != 0 {
		t.Error("elapsed time before the first order: got some, want 0")
	}
	for range 4 {
		if status := post(t, b.URL()); status != http.StatusCreated {
			t.Errorf("order through the balancer: got status %d, want 201", status)
		}
		<-b.Began
	}
	if b.Elapsed() == 0 {
		t.Error("elapsed time after the first order: got 0, want some")
	}
	for _, got := range bodies {
		if got != "{} key 10.0.0.1" {
			t.Errorf("request at the node: got %q, want body, key and address unchanged", got)
		}
	}
	if len(bodies) != 4 {
		t.Errorf("requests at the node: got %d, want 4", len(bodies))
	}
	alive.Close()
	if status := post(t, b.URL()); status != 0 {
		t.Errorf("order without a node: got status %d, want no answer", status)
	}
}

// A request to a silent node is answered 503 and goes to no other node. Later requests go
// to nodes that are alive.
func TestBalancerDoesNotRetryAfterSilence(t *testing.T) {
	var orders atomic.Int64
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			orders.Add(1)
		}
		w.WriteHeader(http.StatusConflict)
	}))
	defer alive.Close()
	resume := make(chan struct{})
	paused := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-resume }))
	defer paused.Close()
	defer close(resume)
	b := balanced(t, alive.URL, paused.URL)
	statuses := map[int]int{}
	for range 2 { // one request for each node
		statuses[post(t, b.URL())]++
	}
	if statuses[409] != 1 || statuses[503] != 1 || orders.Load() != 1 {
		t.Errorf("orders through the balancer: got answers %v and %d orders at the live node, want one 409, one 503, one order", statuses, orders.Load())
	}
	for range 4 {
		if status := post(t, b.URL()); status != 409 {
			t.Errorf("order after the silence was noticed: got status %d, want 409", status)
		}
	}
}

func balanced(t *testing.T, nodes ...string) *Balancer {
	t.Helper()
	b, err := Balance(nodes...)
	check.Must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// post sends one order and returns the status, or 0 without an answer.
func post(t *testing.T, target string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+"/v1/orders", strings.NewReader("{}"))
	check.Must(t, err)
	req.Header.Set("Idempotency-Key", "key")
	req.Header.Set("X-Forwarded-For", "10.0.0.1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}
