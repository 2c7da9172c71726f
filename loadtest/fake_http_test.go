package loadtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

func newFake(t testing.TB, f fault) (*fakeSale, string) {
	s, handler := fakeHandler(f)
	server := httptest.NewServer(handler)
	t.Cleanup(func() { close(s.stop); server.Close() })
	return s, server.URL
}

// newFakes starts one server with a fake sale for each SKU.
func newFakes(t testing.TB, faults map[string]fault) string {
	sales := map[string]http.Handler{}
	var fakes []*fakeSale
	for sku, f := range faults {
		s, handler := fakeHandler(f)
		sales[sku], fakes = handler, append(fakes, s)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The SKU is in the path, in the id of the order or in the body.
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		for sku, handler := range sales {
			if strings.Contains(r.URL.Path+string(body), sku) {
				handler.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(func() {
		for _, s := range fakes {
			close(s.stop)
		}
		server.Close()
	})
	return server.URL
}

func fakeHandler(f fault) (*fakeSale, http.Handler) {
	s := &fakeSale{fault: f, orders: map[string]*fakeOrder{}, byKey: map[judge.Intent]*fakeOrder{}, byBuyer: map[string][]*fakeOrder{}, stop: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/admin/sales/{sku}", s.put)
	mux.HandleFunc("GET /v1/admin/sales/{sku}/audit", s.audit)
	mux.HandleFunc("GET /v1/admin/sales/{sku}/orders", s.list)
	mux.HandleFunc("POST /v1/admin/sales/{sku}/close", s.end)
	mux.HandleFunc("GET /v1/admin/changes", s.changes)
	mux.HandleFunc("GET /v1/about", s.describe)
	mux.HandleFunc("GET /v1/sales/{sku}", s.state)
	mux.HandleFunc("POST /v1/orders", s.order)
	mux.HandleFunc("GET /v1/orders/{id}", s.get)
	mux.HandleFunc("POST /v1/orders/{id}/pay", s.pay)
	mux.HandleFunc("POST /v1/orders/{id}/cancel", s.cancel)
	return s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "fake")
		counts := 1
		if strings.HasSuffix(r.URL.Path, "/changes") && r.Header.Get("Prefer") != "" {
			counts = 0 // a consumer that waits has a connection of its own
		}
		s.mu.Lock()
		s.tick()
		dead := s.stops && s.posts > 60
		s.inFlight += counts
		s.highest = max(s.highest, s.inFlight)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.inFlight -= counts
			s.mu.Unlock()
		}()
		if dead {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	})
}

// fakeToken returns an unsigned token, which contains the subject.
func fakeToken(subject string, admin bool) (string, error) {
	if admin {
		return "admin/" + subject, nil
	}
	return subject, nil
}

func caller(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func (s *fakeSale) put(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(caller(r), "admin/") {
		s.problem(w, 403, "forbidden")
		return
	}
	var in struct {
		Total  int    `json:"total"`
		Limit  int    `json:"per_buyer_limit"`
		Window int    `json:"payment_window_s"`
		On     string `json:"reserve_on"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.problem(w, 400, "invalid_request")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sku, s.total, s.available, s.limit = r.PathValue("sku"), in.Total, in.Total+s.oversell, in.Limit
	s.window = time.Duration(in.Window) * time.Second
	s.onPayment = in.On == judge.OnPayment
	w.WriteHeader(201)
}

func (s *fakeSale) describe(w http.ResponseWriter, _ *http.Request) {
	if s.about == nil {
		s.problem(w, cmp.Or(s.aboutStatus, 404), "not_found")
		return
	}
	_ = json.NewEncoder(w).Encode(s.about)
}

func (s *fakeSale) end(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = strings.HasPrefix(caller(r), "admin/")
	_, _ = io.WriteString(w, "{}")
}

func (s *fakeSale) state(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads++; s.oneAddress && s.reads > 10 {
		w.Header().Set("Retry-After", "1")
		s.problem(w, 429, "rate_limited")
		return
	}
	fmt.Fprintf(w, `{"state":"open","available":%d}`, s.available-s.oversell)
}

func (s *fakeSale) order(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SKU      string `json:"sku"`
		Quantity int    `json:"quantity"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.SKU != s.sku {
		s.problem(w, 400, "invalid_request")
		return
	}
	// These faults affect only orders of the attack. If they affected fresh buyers and
	// retries, a run would not end.
	attack := r.Header.Get("X-Vegeta-Seq") != ""
	s.mu.Lock()
	s.posts++
	nth, status := s.posts, 201
	if s.onCall != nil {
		s.onCall()
	}
	fifth := attack && nth%5 == 0 && nth <= 40 // few, because a client may wait for a second after each
	for n := 0; n < s.visitors && nth == 20; n++ {
		s.place(fmt.Sprint("guest-", n), fmt.Sprint("their-", n), 1)
		if s.visitorsUncounted {
			s.available++
		}
	}
	if s.stuck != "" && strings.HasSuffix(r.Header.Get("Idempotency-Key"), s.stuck) {
		s.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		s.problem(w, 503, "unavailable")
		return
	}
	if fifth && s.limited {
		s.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		s.problem(w, 429, "rate_limited")
		return
	}
	o, code, replayed := s.place(caller(r), r.Header.Get("Idempotency-Key"), in.Quantity)
	if o != nil && o.due.After(time.Now()) {
		status = 202
	}
	body, _ := json.Marshal(s.view(o))
	s.mu.Unlock()

	switch {
	case fifth && s.unavailable:
		w.Header().Set("Retry-After", "1")
		s.problem(w, 503, "unavailable")
	case fifth && s.silent:
		select {
		case <-s.stop:
		case <-r.Context().Done():
		}
	case fifth && s.drops, attack && s.slowRows && nth%2 == 0:
		panic(http.ErrAbortHandler)
	case fifth && s.hangUp:
		w.Header().Set("Content-Length", "5000")
		w.WriteHeader(201)
		fmt.Fprint(w, `{"id":"`)
		_ = http.NewResponseController(w).Flush() // otherwise the client's transport sends the order again
		panic(http.ErrAbortHandler)
	case o == nil:
		s.problem(w, 409, code)
	case s.ghost && !replayed && nth%7 == 0:
		s.problem(w, 409, "sold_out")
	default:
		if replayed && !s.unflagged {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.Header().Set("Location", "/v1/orders/"+o.ID+"?sku="+o.SKU+"&key="+o.Key)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func (s *fakeSale) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.PathValue("sku") != s.sku {
		s.problem(w, 404, "not_found")
		return
	}
	if s.restarts > 0 && s.audits > 0 {
		s.restarts--
		s.problem(w, 503, "unavailable")
		return
	}
	s.lists++
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := min(from+limit, len(s.rows))
	orders := []map[string]any{}
	if s.unsettled && s.noAudit {
		s.rows[0].ClosedAt = time.Now()
	}
	if s.shuffled { // one page holds all rows
		rand.Shuffle(len(s.rows), func(i, j int) { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] })
	}
	for _, o := range s.rows[from:to] {
		orders = append(orders, s.view(o))
	}
	next := ""
	if to < len(s.rows) {
		next = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"orders": orders, "next_cursor": next})
}

func (s *fakeSale) problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if s.plainText {
		w.Header().Set("Content-Type", "text/plain")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"about:blank","status":%d,"code":%q}`, status, code)
}
