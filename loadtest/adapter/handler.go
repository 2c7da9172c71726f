package adapter

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"flashsale/loadtest/judge"
)

// Handler answers the calls of the load test for a shop. An error of the shop is the detail of a
// 503, and each of the first 20 different errors is logged once.
func Handler(s Shop) http.Handler {
	h := &handler{shop: s}
	payer, pays := s.(Payer)
	canceller, cancels := s.(Canceller)
	h.limiter, _ = s.(Limiter)
	h.counter, _ = s.(Counter)
	for f, has := range map[judge.Feature]bool{
		judge.ChangeFeed: false, judge.Limit: h.limiter != nil, judge.Auditing: h.counter != nil,
		judge.Paying: pays, judge.Cancelling: cancels, judge.CancelOrPay: pays && cancels,
	} {
		if !has {
			h.lacks = append(h.lacks, f)
		}
	}
	mux := http.NewServeMux()
	on := func(pattern string, f call) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.answer(w, r, f) })
	}
	on("/", func(*request) (any, error) { return nil, errNotFound })
	on("GET /v1/about", h.about)
	on("PUT /v1/admin/sales/{sku}", h.open)
	on("GET /v1/admin/sales/{sku}/orders", h.list)
	on("GET /v1/sales/{sku}", h.offer)
	on("POST /v1/orders", h.order)
	if h.counter != nil {
		on("GET /v1/admin/sales/{sku}/audit", h.audit)
	}
	if pays {
		on("POST /v1/orders/{id}/pay", func(q *request) (any, error) {
			q.order.Status = judge.Paid
			return q.order, payer.Pay(q.Context(), q.order.SKU, q.order.ID, q.in.Ref)
		})
	}
	if cancels {
		on("POST /v1/orders/{id}/cancel", func(q *request) (any, error) {
			q.order.Status = judge.Cancelled
			return q.order, canceller.Cancel(q.Context(), q.order.SKU, q.order.ID)
		})
	}
	return mux
}

type handler struct {
	shop    Shop
	limiter Limiter         // nil if shop does not implement it
	counter Counter         // nil if shop does not implement it
	lacks   []judge.Feature // features that shop does not implement
	sales   sync.Map        // SKU → sale
	orders  sync.Map        // id → judge.Order as answered, to find the SKU and the buyer of an id
	logged  sync.Map        // texts of errors
	logs    atomic.Int64
}

// sale contains the fields of a PUT that are used, and of the answer to a GET.
type sale struct {
	SKU       string `json:"sku"`
	Name      string `json:"name"`
	Price     int64  `json:"price"`
	Currency  string `json:"currency"`
	Total     int    `json:"total"`
	Limit     int    `json:"per_buyer_limit"`
	ReserveOn string `json:"reserve_on"`
	State     string `json:"state"`
	Available *int   `json:"available"` // null if the shop has no Counter
}

// request is a request with the values that its call needs.
type request struct {
	*http.Request
	header http.Header // header of the answer
	in     struct {    // the fields of all bodies
		sale
		Quantity int    `json:"quantity"`
		Ref      string `json:"payment_ref"`
	}
	sale  sale        // sale of the SKU in the path or body
	buyer string      // caller of a POST
	order judge.Order // order whose id is in the path
}

// A call returns the body of its answer, or an error.
type call func(*request) (any, error)

// problem is an error that has an answer of its own.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (p *problem) Error() string { return p.Detail }

var errNotFound = &problem{http.StatusNotFound, "not_found", "there is no such sale, order or call"}

func (h *handler) answer(w http.ResponseWriter, r *http.Request, f call) {
	w.Header().Set("X-Request-Id", rand.Text())
	kind, status := "application/json", http.StatusOK
	body, err := h.recovered(w, r, f)
	if err != nil {
		p, ok := errors.AsType[*problem](err)
		if !ok {
			h.logOnce(err.Error())
			w.Header().Set("Retry-After", "1")
			p = &problem{http.StatusServiceUnavailable, "unavailable", err.Error()}
		}
		kind, status, body = "application/problem+json", p.Status, p
	} else if w.Header().Get("Location") != "" {
		status = http.StatusCreated
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// recovered reads the request and calls f. It returns a panic of the shop as an error, because
// the call may have taken effect.
func (h *handler) recovered(w http.ResponseWriter, r *http.Request, f call) (body any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			h.logOnce(err.Error(), "stack", string(debug.Stack()))
		}
	}()
	q := &request{Request: r, header: w.Header()}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&q.in); err != nil && err != io.EOF {
		return nil, &problem{http.StatusBadRequest, "invalid_request", "body: " + err.Error()}
	}
	if q.buyer = subject(r); q.buyer == "" && r.Method == http.MethodPost {
		return nil, &problem{http.StatusUnauthorized, "unauthorized", "want a bearer token with a subject"}
	}
	if id := r.PathValue("id"); id != "" {
		known, _ := h.orders.Load(id)
		if q.order, _ = known.(judge.Order); q.order.Buyer != q.buyer {
			return nil, errNotFound
		}
	}
	if sku := cmp.Or(r.PathValue("sku"), q.in.SKU); sku != "" && r.Method != http.MethodPut {
		known, ok := h.sales.Load(sku)
		if !ok {
			return nil, errNotFound
		}
		q.sale = known.(sale)
	}
	return f(q)
}

// subject returns the subject of the bearer token, without verifying the signature.
func subject(r *http.Request) string {
	var claims struct {
		Subject string `json:"sub"`
	}
	if parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "."); len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(payload, &claims)
	}
	return claims.Subject
}

// maxLogged is the number of different errors that are logged.
const maxLogged = 20

func (h *handler) logOnce(text string, args ...any) {
	if _, seen := h.logged.LoadOrStore(text, true); !seen && h.logs.Add(1) <= maxLogged {
		slog.Error("adapter: call the shop", append([]any{"error", text}, args...)...)
	}
}

func (h *handler) about(*request) (any, error) {
	a := h.shop.About()
	a.Lacks = slices.Concat(a.Lacks, h.lacks)
	slices.Sort(a.Lacks)
	a.Lacks = slices.Compact(a.Lacks)
	return a, nil
}

func (h *handler) open(q *request) (any, error) {
	s := q.in.sale
	s.SKU, s.State, s.Available = q.PathValue("sku"), "open", nil
	err := h.shop.Open(q.Context(), s.SKU, s.Total, s.Price, s.Currency)
	if err == nil && h.limiter != nil {
		err = h.limiter.Limit(q.Context(), s.SKU, s.Limit)
	}
	if err == nil {
		h.sales.Store(s.SKU, s)
	}
	return s, err
}

func (h *handler) offer(q *request) (_ any, err error) {
	if h.counter != nil {
		q.sale.Available = new(int)
		*q.sale.Available, err = h.counter.Left(q.Context(), q.sale.SKU)
	}
	return q.sale, err
}

func (h *handler) order(q *request) (any, error) {
	if q.sale.SKU == "" || q.in.Quantity < 1 {
		return nil, &problem{http.StatusBadRequest, "invalid_request", "want a sku, and a quantity of at least 1"}
	}
	o, err := h.shop.Order(q.Context(), q.sale.SKU, q.buyer, q.Header.Get("Idempotency-Key"), q.in.Quantity)
	if err != nil {
		return nil, err
	}
	out := judge.Order{ID: o.ID, Buyer: q.buyer, Quantity: q.in.Quantity, Status: o.Status, ExpiresAt: o.ExpiresAt}
	if err = complete(&out, q.sale.SKU); err != nil {
		return nil, err
	}
	h.orders.Store(out.ID, out)
	if o.Replayed {
		q.header.Set("Idempotent-Replayed", "true")
	}
	q.header.Set("Location", "/v1/orders/"+url.PathEscape(out.ID))
	return out, nil
}

// rows returns the shop's orders by id.
func (h *handler) rows(q *request) ([]judge.Row, error) {
	rows, err := h.shop.Rows(q.Context(), q.sale.SKU)
	rows = append([]judge.Row{}, rows...)
	for i := 0; i < len(rows) && err == nil; i++ {
		err = complete(&rows[i].Order, q.sale.SKU)
	}
	slices.SortStableFunc(rows, func(a, b judge.Row) int { return strings.Compare(a.ID, b.ID) })
	return rows, err
}

// maxRows is the number of rows of a page, whatever limit asks for. Each page reads all rows of
// the shop, so there should be few pages.
const maxRows = 5000

// list returns a page that begins with the id in the cursor.
func (h *handler) list(q *request) (any, error) {
	rows, err := h.rows(q)
	cursor, next := q.URL.Query().Get("cursor"), ""
	rows = slices.DeleteFunc(rows, func(row judge.Row) bool { return row.ID < cursor })
	if len(rows) > maxRows {
		rows, next = rows[:maxRows], rows[maxRows].ID
	}
	return map[string]any{"orders": rows, "next_cursor": next}, err
}

func (h *handler) audit(q *request) (any, error) {
	left, unknown := h.counter.Left(q.Context(), q.sale.SKU)
	rows, err := h.rows(q)
	a := judge.AuditOf(q.sale.SKU, q.sale.Total, q.sale.ReserveOn, rows)
	a.Drift, a.Available = a.Available-left, left
	a.Balanced = a.Drift == 0 && a.Oversold == 0
	return a, errors.Join(unknown, err)
}

var statuses = []string{judge.Pending, judge.Paid, judge.Cancelled, judge.Expired, judge.Rejected}

// complete fills in the fields that a shop may leave empty. It returns an error for an order that
// the judge would not count, such as an order with a status of the shop's own.
func complete(o *judge.Order, sku string) error {
	o.SKU, o.Status = cmp.Or(o.SKU, sku), cmp.Or(o.Status, judge.Pending)
	if o.ID == "" || o.Quantity < 1 || !slices.Contains(statuses, o.Status) {
		return fmt.Errorf("order %q of the shop: quantity %d, status %q: want an id, at least 1, and one of %s",
			o.ID, o.Quantity, o.Status, strings.Join(statuses, ", "))
	}
	return nil
}
