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

// A node that is gone costs nobody an answer: the same request goes to the
// next one. With no node left there is no answer, not an invented one.
func TestBalancerMovesOn(t *testing.T) {
	var bodies []string
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b)+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("X-Forwarded-For"))
		w.WriteHeader(http.StatusCreated)
	}))
	dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler) // dies with the request in its hands
	}))
	defer dead.Close()
	b := balanced(t, alive.URL, dead.URL)
	if b.Elapsed() != 0 {
		t.Error("began before the first order")
	}
	for range 4 {
		if status := post(t, b.URL()); status != http.StatusCreated {
			t.Errorf("status %d", status)
		}
		<-b.Began
	}
	if b.Elapsed() == 0 {
		t.Error("the first order was not noticed")
	}
	for _, got := range bodies {
		if got != "{} key 10.0.0.1" {
			t.Errorf("the node got %q", got)
		}
	}
	if len(bodies) != 4 {
		t.Errorf("%d requests arrived, want 4", len(bodies))
	}
	alive.Close()
	if status := post(t, b.URL()); status != 0 {
		t.Errorf("without a node: status %d, want no answer", status)
	}
}

// What a silent node has in its hands goes to no other node: the buyer hears
// that the outcome is open. The next buyers go to nodes that are alive.
func TestBalancerDoesNotRepeatWhatMayYetHappen(t *testing.T) {
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
	for range 2 { // one each, in turn
		statuses[post(t, b.URL())]++
	}
	if statuses[409] != 1 || statuses[503] != 1 || orders.Load() != 1 {
		t.Errorf("answers %v, %d orders at the node that is alive: want one 409, one 503, one order", statuses, orders.Load())
	}
	for range 4 {
		if status := post(t, b.URL()); status != 409 {
			t.Errorf("status %d after the silence was noticed", status)
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

// post sends one order; 0 is no answer.
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
