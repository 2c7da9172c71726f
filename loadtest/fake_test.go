package loadtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"flashsale/loadtest/judge"
)

// fault breaks the fake sale in one way. Its zero value keeps the contract.
type fault struct {
	oversell          int  // number of units sold beyond the total
	decrLeak          bool // a refusal takes the units as well
	unsold            int  // number of units that are left when the gate answers sold_out
	noRelease         bool // cancelled units are never released
	noLimit           bool
	lose              bool // every seventh 201 leaves no row
	ghost             bool // every seventh order is stored and refused with sold_out
	dupe              bool // a replay creates another order
	drift             int  // added to available in the audit
	driftyAudits      int  // number of audits with drift, after which the drift is gone; 0 for no end
	unsettled         bool // the audit changes with each read
	plainText         bool // problem documents have the wrong content type
	unflagged         bool // replays lack their header
	unpaid            bool // pay answers 200 without effect
	refuseReplay      bool // a replay is refused if the sale is sold out
	visitorsUncounted bool // units that visitors buy stay available at the gate
	feed              feedFault

	// These faults need a sale that takes units on payment.
	holdsUnpaid  bool // orders take units as well
	takesTwice   bool // a repeated payment takes units again
	ghostPaid    bool // every seventh payment is stored and refused with sold_out
	refuseRepeat bool // a repeated payment is refused with sold_out

	// A shop that lacks features has these properties.
	about        *judge.About // answer to GET /v1/about; nil if there is none
	aboutStatus  int          // status of GET /v1/about without about; 0 means 404
	shuffled     bool         // rows are listed in another order each time
	stuck        string       // orders whose key ends with this text are answered 503
	busyLookups  bool         // lookups of fresh buyers are answered 429
	drops        bool         // every fifth order of the attack is stored, and its connection closes without an answer
	keysUnstored bool         // rows have no keys
	noAudit      bool         // there is no audit
	derived      bool         // the audit's available units are the total without the sold units
	noCancel     bool         // orders cannot be cancelled
	paidAtOnce   bool         // orders are stored as paid, and there is no call to pay
	cancelsPaid  bool         // paid orders can be cancelled
	slowRows     bool         // every second order of the attack receives no answer, and its row appears when the rows are read later

	// These fields break no promise.
	visitors      int  // number of visitors who buy one unit each during the attack
	hangUp        bool // every fifth order of the attack is stored, and its answer breaks off
	silent        bool // every fifth order of the attack is stored and receives no answer
	async         bool // orders are answered with 202 first
	forget        bool // every fifth 202 is lost before it is stored
	unavailable   bool // every fifth order of the attack is answered with 503
	limited       bool // every fifth order of the attack is answered with 429
	oneAddress    bool // after ten reads from any addresses, reads are answered with 429
	staleRefusals int  // number of fresh buyers who are refused with sold_out while units are left
	stops         bool // no call is answered after 60 orders
	restarts      int  // number of times that the rows cannot be read after the attack
}

type fakeOrder struct {
	judge.Row
	due   time.Time // end of the status reserved
	ghost bool      // paid, but every payment is refused
}

// fakeSale is a sale in memory, the target of these tests. It is correct unless fault
// breaks it.
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
	byKey     map[judge.Intent]*fakeOrder
	rows      []*fakeOrder // ordered by id
	byBuyer   map[string][]*fakeOrder
	returning []returning
	posts     int
	payments  int
	log       []judge.Change // feed of changes
	slow      []*fakeOrder   // orders whose rows appear later
	onCall    func()         // called for each order and payment; may be nil
	audits    int
	lists     int
	reads     int
	ended     bool
	stop      chan struct{}

	inFlight, highest int // number of concurrent calls, now and at most
}

// returning holds units that are being released.
type returning struct {
	units int
	at    time.Time
}

// tick releases the units and expires the orders whose time has come.
func (s *fakeSale) tick() {
	now := time.Now()
	kept := s.returning[:0]
	for _, back := range s.returning {
		if now.Before(back.at) {
			kept = append(kept, back)
			continue
		}
		s.available += back.units
	}
	s.returning = kept
	if s.window > time.Minute {
		return // no order can expire, and checking each takes long
	}
	for _, o := range s.rows {
		if o.Status == judge.Pending && now.After(o.ExpiresAt) {
			s.closeOrder(o, judge.Expired)
		}
	}
}

func (s *fakeSale) closeOrder(o *fakeOrder, status string) {
	o.Status, o.ClosedAt = status, time.Now()
	s.report(o)
	if !s.noRelease && !s.onPayment {
		s.returning = append(s.returning, returning{o.Quantity, time.Now().Add(3 * time.Millisecond)})
	}
}

// place is the gate and the table in one. It returns an order, or the code of a
// refusal.
func (s *fakeSale) place(buyer, key string, quantity int) (*fakeOrder, string, bool) {
	if o := s.byKey[judge.Intent{Buyer: buyer, Key: key}]; o != nil && !s.dupe {
		if s.refuseReplay && s.available == 0 {
			return nil, "sold_out", false
		}
		return o, "", true
	}
	if s.heldBy(buyer)+quantity > s.limit && !s.noLimit {
		return nil, "buyer_limit", false
	}
	switch {
	case s.staleRefusals > 0 && strings.HasSuffix(key, "fresh-order"):
		s.staleRefusals--
		return nil, "sold_out", false
	case s.onPayment && s.available-s.unsold < quantity:
		return nil, "sold_out", false
	case s.onPayment && !s.holdsUnpaid:
	case !s.take(quantity):
		return nil, "sold_out", false
	}
	now := time.Now()
	o := &fakeOrder{Row: judge.Row{Key: key, Order: judge.Order{
		ID: fmt.Sprintf("%s-%06d", s.sku, len(s.orders)+1), SKU: s.sku, Buyer: buyer, Quantity: quantity,
		Status: judge.Pending, ExpiresAt: now.Add(s.window),
	}}, due: now}
	if s.async {
		o.due = now.Add(20 * time.Millisecond)
	}
	s.orders[o.ID] = o
	if s.async && s.forget && len(s.orders)%5 == 0 {
		s.available += quantity // lost without a trace
		return o, "", false
	}
	s.byKey[judge.Intent{Buyer: buyer, Key: key}] = o
	if s.paidAtOnce {
		o.Status = judge.Paid
	}
	if s.slowRows && s.posts%2 == 0 && strings.Contains(key, "order-") && !strings.HasSuffix(key, "fresh-order") {
		s.slow = append(s.slow, o)
	} else if !(s.lose && len(s.orders)%7 == 0) {
		s.rows = append(s.rows, o)
		s.byBuyer[buyer] = append(s.byBuyer[buyer], o)
		s.report(o)
	}
	return o, "", false
}

// heldBy returns the units that a buyer holds.
func (s *fakeSale) heldBy(buyer string) (units int) {
	for _, o := range s.byBuyer[buyer] {
		if o.Status == judge.Paid || o.Status == judge.Pending && !s.onPayment {
			units += o.Quantity
		}
	}
	return units
}

// take takes units from the gate if there are enough.
func (s *fakeSale) take(units int) bool {
	enough := s.available-s.unsold >= units
	if enough || s.decrLeak {
		s.available -= units
	}
	return enough
}

// charge pays a pending order and takes its units. It returns the code of a refusal, or
// "".
func (s *fakeSale) charge(o *fakeOrder) (code string) {
	switch {
	case s.heldBy(o.Buyer)+o.Quantity > s.limit && !s.noLimit:
		return "buyer_limit"
	case !s.holdsUnpaid && !s.take(o.Quantity):
		return "sold_out"
	}
	if !s.unpaid {
		o.Status = judge.Paid
		s.report(o)
	}
	if o.ghost = s.ghostPaid && s.payments%7 == 0; o.ghost {
		return "sold_out"
	}
	return ""
}

// view returns an order as its buyer sees it.
func (s *fakeSale) view(o *fakeOrder) map[string]any {
	if o == nil {
		return nil
	}
	key := o.Key
	if s.keysUnstored {
		key = ""
	}
	v := map[string]any{
		"id": o.ID, "sku": o.SKU, "buyer": o.Buyer, "quantity": o.Quantity, "status": o.Status,
		"expires_at": o.ExpiresAt, "closed_at": nil, "idempotency_key": key,
	}
	if !o.ClosedAt.IsZero() {
		v["closed_at"] = o.ClosedAt
	}
	if o.due.After(time.Now()) {
		v["status"] = judge.Reserved
	}
	return v
}

func (s *fakeSale) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[r.PathValue("id")]
	if s.busyLookups && strings.HasPrefix(caller(r), "fresh") {
		s.problem(w, 429, "rate_limited")
		return
	}
	if o == nil || o.Buyer != caller(r) || s.byKey[judge.Intent{Buyer: o.Buyer, Key: o.Key}] != o {
		s.problem(w, 404, "not_found")
		return
	}
	_ = json.NewEncoder(w).Encode(s.view(o))
}

func (s *fakeSale) pay(w http.ResponseWriter, r *http.Request)    { s.close(w, r, judge.Paid) }
func (s *fakeSale) cancel(w http.ResponseWriter, r *http.Request) { s.close(w, r, judge.Cancelled) }

func (s *fakeSale) close(w http.ResponseWriter, r *http.Request, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[r.PathValue("id")]
	taking := s.onPayment && status == judge.Paid
	if s.noCancel && status == judge.Cancelled || s.paidAtOnce && status == judge.Paid {
		s.problem(w, 404, "not_found")
		return
	}
	if s.payments++; taking && s.unavailable && s.payments%5 == 0 {
		w.Header().Set("Retry-After", "1")
		s.problem(w, 503, "unavailable")
		return
	}
	if s.onCall != nil {
		s.onCall()
	}
	if taking && s.hangUp && s.payments%5 == 0 {
		defer panic(http.ErrAbortHandler)
	}
	switch {
	case o == nil || o.Buyer != caller(r):
		s.problem(w, 404, "not_found")
		return
	case o.Status == status && taking && (s.refuseRepeat || o.ghost):
		s.problem(w, 409, "sold_out")
		return
	case o.Status == status && taking && s.takesTwice:
		s.available -= o.Quantity
	case o.Status == status:
	case o.Status == judge.Paid && !s.cancelsPaid:
		s.problem(w, 409, "already_paid")
		return
	case o.Status != judge.Pending && o.Status != judge.Paid:
		s.problem(w, 409, "order_closed")
		return
	case status == judge.Cancelled:
		s.closeOrder(o, judge.Cancelled)
	case taking:
		if code := s.charge(o); code != "" {
			s.problem(w, 409, code)
			return
		}
	case !s.unpaid:
		o.Status = judge.Paid
		s.report(o)
	}
	v := s.view(o)
	v["status"] = status
	_ = json.NewEncoder(w).Encode(v)
}

func (s *fakeSale) audit(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.audits++; s.noAudit {
		s.problem(w, 404, "not_found")
		return
	}
	if len(s.slow) > 0 {
		s.report(s.slow[0])
		s.rows, s.slow = append(s.rows, s.slow[0]), s.slow[1:]
	}
	a := judge.Audit{SKU: s.sku, Total: s.total, Available: s.available - s.oversell}
	if s.driftyAudits == 0 || s.audits <= s.driftyAudits {
		a.Available += s.fault.drift
	}
	for _, o := range s.rows {
		switch {
		case o.due.After(time.Now()):
			a.Queued += o.Quantity
		case o.Status == judge.Paid:
			a.Paid += o.Quantity
		case o.Status == judge.Pending && !s.onPayment:
			a.Pending += o.Quantity
		}
	}
	for _, back := range s.returning {
		a.Restoring += back.units
	}
	if s.unsettled {
		a.Queued += s.audits % 2
	}
	a.Sold = a.Paid + a.Pending
	a.Oversold = max(0, a.Sold-a.Total)
	if s.derived {
		a.Available, a.Restoring = max(0, a.Total-a.Sold)+s.fault.drift, 0
	}
	a.Drift = a.Total - a.Available - a.Queued - a.Sold - a.Restoring
	a.Balanced = a.Drift == 0 && a.Oversold == 0
	_ = json.NewEncoder(w).Encode(a)
}
