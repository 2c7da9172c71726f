package drill

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A record is what the buyers of one sale heard, by the clock.
type record struct {
	began chan struct{} // closed with the first order

	mu      sync.Mutex
	first   time.Time
	soldOut time.Time            // first heard of; zero: never
	yeses   map[string]time.Time // by order
}

func newRecord() *record {
	return &record{began: make(chan struct{}), yeses: map[string]time.Time{}}
}

func isOrder(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/v1/orders"
}

// asked books the first order.
func (r *record) asked(req *http.Request) {
	if !isOrder(req) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.IsZero() {
		r.first = time.Now()
		close(r.began)
	}
}

// answered books a yes: the first 201 of an order. Replays are no news, and a
// 202 promises nothing yet.
func (r *record) answered(res *http.Response) error {
	if !isOrder(res.Request) {
		return nil
	}
	switch res.StatusCode {
	case http.StatusCreated:
		order, _, _ := strings.Cut(res.Header.Get("Location"), "?")
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, known := r.yeses[order]; !known {
			r.yeses[order] = time.Now()
		}
	case http.StatusConflict:
		body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		if err != nil {
			return err
		}
		res.Body = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(body), res.Body}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.soldOut.IsZero() && bytes.Contains(body, []byte(`"sold_out"`)) {
			r.soldOut = time.Now()
		}
	}
	return nil
}

// elapsed is how long the attack has been running.
func (r *record) elapsed() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.first), !r.first.IsZero()
}

// seen is what the record says once all is over.
func (r *record) seen() seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := seen{first: r.first, soldOut: r.soldOut}
	for _, at := range r.yeses {
		s.yeses = append(s.yeses, at)
	}
	slices.SortFunc(s.yeses, time.Time.Compare)
	return s
}

// seen is when the buyers heard what.
type seen struct {
	first   time.Time
	soldOut time.Time
	yeses   []time.Time // in order
}

// longestGap is the longest time that no buyer heard a yes, from the first
// order until there was nothing left to sell, or the attack was over.
func (s seen) longestGap(attack time.Duration) (gap time.Duration) {
	last, end := s.first, s.first.Add(attack)
	if !s.soldOut.IsZero() && s.soldOut.Before(end) {
		end = s.soldOut
	}
	for _, yes := range append(slices.Clone(s.yeses), end) {
		if yes.After(end) {
			yes = end
		}
		gap, last = max(gap, yes.Sub(last)), yes
	}
	return gap
}
