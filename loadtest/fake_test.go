package loadtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault breaks the reference sale in one way; its zero value keeps the
// contract.
type fault struct {
	oversell      int  // sells this many units too many
	decrLeak      bool // a refusal takes the units all the same
	shy           int  // says sold_out while this many are left
	noRestore     bool // cancelled units never come back
	doubleRestore bool // they come back twice
	noLimit       bool
	lose          bool // every seventh 201 leaves no row
	ghost         bool // every seventh order is stored and refused
	dupe          bool // a replay makes another order
	one           bool // the quantity is ignored: always one unit
	drift         int  // the audit's available is off by this
	mends         int  // so many audits find the drift, and then it is mended
	restless      bool // the audit never comes to rest
	plainText     bool // problems are not problem+json
	unflagged     bool // replays do not say so
	unpaid        bool // pay answers 200 and does nothing
	early         bool // orders expire long before they should
	refuseReplay  bool // sold_out is asked before the key
	crash         bool // every seventh order answers 500
	falseLimit    bool // every seventh buyer hears buyer_limit for nothing

	// Where payments take the units.
	holdsUnpaid  bool // orders take them, too: what is not paid is kept from others
	givesUntaken bool // a cancelled order gives back what it never took
	takesTwice   bool // a repeated payment takes them again
	ghostPaid    bool // every seventh payment is stored and refused
	fickle       bool // a repeated payment hears sold_out
	shownPaid    bool // replays show every order as paid

	// Not breaches: what clients have to live with.
	hangUp      bool // every fifth order is stored, and its answer breaks off
	silent      bool // every fifth order is stored, and never answered
	async       bool // 202 first
	forget      bool // every fifth 202 is lost before it is durable
	unavailable bool // every fifth order answers 503
	limited     bool // every fifth order answers 429
	dies        bool // after 300 orders nothing is answered any more
}

type fakeOrder struct {
	Row
	due time.Time // until then: reserved
}

// fakeSale is a correct sale in memory, the reference target of these tests.
type fakeSale struct {
	fault
	mu        sync.Mutex
	total     int
	limit     int
	onPayment bool
	window    time.Duration
	sku       string
	available int
	orders    map[string]*fakeOrder
	byKey     map[ask]*fakeOrder
	rows      []*fakeOrder // by id
	byBuyer   map[string][]*fakeOrder
	returning []returning
	posts     int
	payments  int
	onPaid    func() // called at each call to pay; nil for nothing
	audits    int
	stop      chan struct{}
}

// returning is units on their way back to the gate.
type returning struct {
	units int
	at    time.Time
}

func newFake(t testing.TB, f fault) (*fakeSale, string) {
	s := &fakeSale{fault: f, orders: map[string]*fakeOrder{}, byKey: map[ask]*fakeOrder{}, byBuyer: map[string][]*fakeOrder{}, stop: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/admin/sales/{sku}", s.put)
	mux.HandleFunc("GET /v1/admin/sales/{sku}/audit", s.audit)
	mux.HandleFunc("GET /v1/admin/sales/{sku}/orders", s.list)
	mux.HandleFunc("GET /v1/sales/{sku}", s.state)
	mux.HandleFunc("POST /v1/orders", s.order)
	mux.HandleFunc("GET /v1/orders/{id}", s.get)
	mux.HandleFunc("POST /v1/orders/{id}/pay", s.pay)
	mux.HandleFunc("POST /v1/orders/{id}/cancel", s.cancel)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "fake")
		s.mu.Lock()
		s.tick()
		dead := s.dies && s.posts > 300
		s.mu.Unlock()
		if dead {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(s.stop); server.Close() })
	return s, server.URL
}

// fakeToken signs nothing: the fake reads the subject.
func fakeToken(subject string, admin bool) (string, error) {
	if admin {
		return "admin/" + subject, nil
	}
	return subject, nil
}

func caller(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// tick lets time pass: units come back, orders expire.
func (s *fakeSale) tick() {
	now := time.Now()
	kept := s.returning[:0]
	for _, back := range s.returning {
		if now.Before(back.at) {
			kept = append(kept, back)
			continue
		}
		s.available += back.units
		if s.doubleRestore {
			s.available += back.units
		}
	}
	s.returning = kept
	if s.window > time.Minute && !s.early {
		return // nothing can expire, and looking at every order takes long
	}
	for i, o := range s.rows {
		if o.Status == Pending && (now.After(o.ExpiresAt) || s.early && i%7 == 0 && o.due.Before(now.Add(-50*time.Millisecond))) {
			s.shut(o, Expired)
		}
	}
}

func (s *fakeSale) shut(o *fakeOrder, status string) {
	o.Status, o.ClosedAt = status, time.Now()
	if !s.noRestore && (!s.onPayment || s.givesUntaken) {
		s.returning = append(s.returning, returning{o.Quantity, time.Now().Add(3 * time.Millisecond)})
	}
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
	s.onPayment = in.On == OnPayment
	w.WriteHeader(201)
}

func (s *fakeSale) state(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, `{"state":"open"}`)
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
	// Fresh buyers are spared the faults that come every so often, as are
	// retries, or a run could not come to its end.
	attack := r.Header.Get("X-Vegeta-Seq") != ""
	s.mu.Lock()
	s.posts++
	nth, status := s.posts, 201
	if attack && s.limited && nth%5 == 0 {
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
	case attack && s.crash && nth%7 == 0:
		s.problem(w, 500, "internal")
	case attack && s.unavailable && nth%5 == 0:
		w.Header().Set("Retry-After", "1")
		s.problem(w, 503, "unavailable")
	case attack && s.silent && nth%5 == 0:
		select {
		case <-s.stop:
		case <-r.Context().Done():
		}
	case attack && s.hangUp && nth%5 == 0:
		w.Header().Set("Content-Length", "5000")
		w.WriteHeader(201)
		fmt.Fprint(w, `{"id":"`)
		panic(http.ErrAbortHandler)
	case o == nil:
		s.problem(w, 409, code)
	case s.ghost && !replayed && nth%7 == 0:
		s.problem(w, 409, "sold_out")
	default:
		if replayed && !s.unflagged {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		if replayed && s.shownPaid {
			body = bytes.Replace(body, []byte(Pending), []byte(Paid), 1)
		}
		w.Header().Set("Location", "/v1/orders/"+o.ID+"?sku="+o.SKU+"&key="+o.Key)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

// place is the gate and the table in one. It returns a code instead of an
// order it refuses.
func (s *fakeSale) place(buyer, key string, quantity int) (*fakeOrder, string, bool) {
	if s.one {
		quantity = 1
	}
	if s.falseLimit && s.posts%7 == 0 {
		return nil, "buyer_limit", false
	}
	if o := s.byKey[ask{buyer, key}]; o != nil && !s.dupe {
		if s.refuseReplay && s.available == 0 {
			return nil, "sold_out", false
		}
		return o, "", true
	}
	if s.heldBy(buyer)+quantity > s.limit && !s.noLimit {
		return nil, "buyer_limit", false
	}
	switch {
	case s.onPayment && s.available-s.shy < quantity:
		return nil, "sold_out", false
	case s.onPayment && !s.holdsUnpaid:
	case !s.take(quantity):
		return nil, "sold_out", false
	}
	now := time.Now()
	o := &fakeOrder{Row: Row{Key: key, Order: Order{
		ID: fmt.Sprintf("id-%06d", len(s.orders)+1), SKU: s.sku, Buyer: buyer, Quantity: quantity,
		Status: Pending, ExpiresAt: now.Add(s.window),
	}}, due: now}
	if s.async {
		o.due = now.Add(20 * time.Millisecond)
	}
	s.orders[o.ID] = o
	if s.async && s.forget && len(s.orders)%5 == 0 {
		s.available += quantity // gone as if it had never been
		return o, "", false
	}
	s.byKey[ask{buyer, key}] = o
	if !(s.lose && len(s.orders)%7 == 0) {
		s.rows = append(s.rows, o)
		s.byBuyer[buyer] = append(s.byBuyer[buyer], o)
	}
	return o, "", false
}

// heldBy is how many units a buyer has.
func (s *fakeSale) heldBy(buyer string) (units int) {
	for _, o := range s.byBuyer[buyer] {
		if o.Status == Paid || o.Status == Pending && !s.onPayment {
			units += o.Quantity
		}
	}
	return units
}

// take takes units from the gate, if there are enough.
func (s *fakeSale) take(units int) bool {
	enough := s.available-s.shy >= units
	if enough || s.decrLeak {
		s.available -= units
	}
	return enough
}

// charge is the payment of a pending order that takes its units. It returns why
// it does not.
func (s *fakeSale) charge(o *fakeOrder) (code string) {
	switch {
	case s.falseLimit && s.payments%7 == 0, s.heldBy(o.Buyer)+o.Quantity > s.limit && !s.noLimit:
		return "buyer_limit"
	case !s.holdsUnpaid && !s.take(o.Quantity):
		return "sold_out"
	}
	if !s.unpaid {
		o.Status = Paid
	}
	if s.ghostPaid && s.payments%7 == 0 {
		return "sold_out"
	}
	return ""
}

// view is an order as its buyer sees it now.
func (s *fakeSale) view(o *fakeOrder) map[string]any {
	if o == nil {
		return nil
	}
	v := map[string]any{
		"id": o.ID, "sku": o.SKU, "buyer": o.Buyer, "quantity": o.Quantity, "status": o.Status,
		"expires_at": o.ExpiresAt, "closed_at": nil, "idempotency_key": o.Key,
	}
	if !o.ClosedAt.IsZero() {
		v["closed_at"] = o.ClosedAt
	}
	if o.due.After(time.Now()) {
		v["status"] = Reserved
	}
	return v
}

func (s *fakeSale) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[r.PathValue("id")]
	if o == nil || o.Buyer != caller(r) || s.byKey[ask{o.Buyer, o.Key}] != o {
		s.problem(w, 404, "not_found")
		return
	}
	_ = json.NewEncoder(w).Encode(s.view(o))
}

func (s *fakeSale) pay(w http.ResponseWriter, r *http.Request)    { s.close(w, r, Paid) }
func (s *fakeSale) cancel(w http.ResponseWriter, r *http.Request) { s.close(w, r, Cancelled) }

func (s *fakeSale) close(w http.ResponseWriter, r *http.Request, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[r.PathValue("id")]
	taking := s.onPayment && status == Paid
	if s.payments++; taking && s.unavailable && s.payments%5 == 0 {
		w.Header().Set("Retry-After", "1")
		s.problem(w, 503, "unavailable")
		return
	}
	if s.onPaid != nil {
		s.onPaid()
	}
	if taking && s.hangUp && s.payments%5 == 0 {
		defer panic(http.ErrAbortHandler)
	}
	switch {
	case o == nil || o.Buyer != caller(r):
		s.problem(w, 404, "not_found")
		return
	case o.Status == status && taking && s.fickle:
		s.problem(w, 409, "sold_out")
		return
	case o.Status == status && taking && s.takesTwice:
		s.available -= o.Quantity
	case o.Status == status:
	case o.Status == Paid:
		s.problem(w, 409, "already_paid")
		return
	case o.Status != Pending:
		s.problem(w, 409, "order_closed")
		return
	case status == Cancelled:
		s.shut(o, Cancelled)
	case taking:
		if code := s.charge(o); code != "" {
			s.problem(w, 409, code)
			return
		}
	case !s.unpaid:
		o.Status = Paid
	}
	v := s.view(o)
	v["status"] = status
	_ = json.NewEncoder(w).Encode(v)
}

func (s *fakeSale) audit(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audits++
	a := Audit{SKU: s.sku, Total: s.total, Available: s.available - s.oversell}
	if s.mends == 0 || s.audits <= s.mends {
		a.Available += s.fault.drift
	}
	for _, o := range s.rows {
		switch {
		case o.due.After(time.Now()):
			a.Held += o.Quantity
		case o.Status == Paid:
			a.Paid += o.Quantity
		case o.Status == Pending && !s.onPayment:
			a.Pending += o.Quantity
		}
	}
	for _, back := range s.returning {
		a.Restoring += back.units
	}
	if s.restless {
		a.Held += s.audits % 2
	}
	a.Sold = a.Paid + a.Pending
	a.Oversold = max(0, a.Sold-a.Total)
	a.Drift = a.Total - a.Available - a.Held - a.Sold - a.Restoring
	a.Balanced = a.Drift == 0 && a.Oversold == 0
	_ = json.NewEncoder(w).Encode(a)
}

func (s *fakeSale) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.PathValue("sku") != s.sku {
		s.problem(w, 404, "not_found")
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := min(from+limit, len(s.rows))
	orders := []map[string]any{}
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
