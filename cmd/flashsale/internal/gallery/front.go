package gallery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/cmd/flashsale/internal/gallery/shops"
	"flashsale/orders"
)

// A front puts a shop behind the routes of the contract that a load test uses.
// It is the same for every shop, asks for the same tokens as the real service,
// and knows nothing of stock.
type front struct {
	shop     shops.Shop
	verifier *auth.Verifier
}

func (f front) handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, admin bool, h func(http.ResponseWriter, *http.Request, string) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "gallery")
			who, err := f.verifier.FromHeader(r.Header.Get("Authorization"))
			switch {
			case err != nil:
				fail(w, &problem{http.StatusUnauthorized, "unauthorized"})
			case admin && !who.Admin:
				fail(w, &problem{http.StatusForbidden, "forbidden"})
			default:
				if err := h(w, r, who.Buyer); err != nil {
					fail(w, err)
				}
			}
		})
	}
	route("POST /v1/orders", false, f.place)
	route("GET /v1/orders/{id}", false, f.get)
	route("POST /v1/orders/{id}/pay", false, f.pay)
	route("POST /v1/orders/{id}/cancel", false, f.cancel)
	route("GET /v1/sales/{sku}", false, f.sale)
	route("PUT /v1/admin/sales/{sku}", true, f.open)
	route("GET /v1/admin/sales/{sku}/audit", true, f.audit)
	route("GET /v1/admin/sales/{sku}/orders", true, f.rows)
	return mux
}

// A problem is a refusal by the contract.
type problem struct {
	status int
	code   string
}

func (p *problem) Error() string { return fmt.Sprint(p.status, " ", p.code) }

var problems = map[error]*problem{
	shops.ErrSoldOut:    {http.StatusConflict, "sold_out"},
	shops.ErrBuyerLimit: {http.StatusConflict, "buyer_limit"},
	shops.ErrNotFound:   {http.StatusNotFound, "not_found"},
}

// fail answers with a problem. What is no refusal is a store that failed, or
// a shop that is too busy: 503, and the same key finds out.
func fail(w http.ResponseWriter, err error) {
	p := &problem{http.StatusServiceUnavailable, "unavailable"}
	if !errors.As(err, &p) {
		for is, known := range problems {
			if errors.Is(err, is) {
				p = known
			}
		}
	}
	if p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(p.status), "status": p.status, "code": p.code})
}

func answer(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone
	return nil
}

func (f front) place(w http.ResponseWriter, r *http.Request, buyer string) error {
	var body struct {
		SKU      string `json:"sku"`
		Quantity int    `json:"quantity"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Quantity < 1 {
		return &problem{http.StatusBadRequest, "invalid_request"}
	}
	s, err := f.shop.Sale(r.Context(), body.SKU)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	at := time.Now().UnixMilli()
	o, replayed, err := f.shop.Order(r.Context(), shops.Order{
		ID: id.String(), SKU: body.SKU, Buyer: buyer, Key: r.Header.Get("Idempotency-Key"), Quantity: body.Quantity,
		Status: shops.Pending, CreatedMS: at, ExpiresMS: at + s.WindowMS,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/orders/"+o.ID)
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	return answer(w, http.StatusCreated, shown(o))
}

// mine is the order of the path, if it is the caller's.
func (f front) mine(r *http.Request, buyer string) (shops.Order, error) {
	o, err := f.shop.Find(r.Context(), r.PathValue("id"))
	if err == nil && o.Buyer != buyer {
		err = shops.ErrNotFound
	}
	return o, err
}

func (f front) get(w http.ResponseWriter, r *http.Request, buyer string) error {
	o, err := f.mine(r, buyer)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, shown(o))
}

func (f front) pay(w http.ResponseWriter, r *http.Request, buyer string) error {
	return f.end(w, r, buyer, shops.Paid, func(o shops.Order) error { return f.shop.Pay(r.Context(), o) })
}

func (f front) cancel(w http.ResponseWriter, r *http.Request, buyer string) error {
	return f.end(w, r, buyer, shops.Cancelled, func(o shops.Order) error {
		return f.shop.Close(r.Context(), o, shops.Cancelled)
	})
}

// end asks for an end, and answers by what the order has become.
func (f front) end(w http.ResponseWriter, r *http.Request, buyer, want string, ask func(shops.Order) error) error {
	o, err := f.mine(r, buyer)
	if err != nil {
		return err
	}
	if err := ask(o); err != nil {
		return err
	}
	if o, err = f.mine(r, buyer); err != nil {
		return err
	}
	switch o.Status {
	case want:
		return answer(w, http.StatusOK, shown(o))
	case shops.Paid:
		return &problem{http.StatusConflict, "already_paid"}
	}
	return &problem{http.StatusConflict, "order_closed"}
}

func (f front) sale(w http.ResponseWriter, r *http.Request, _ string) error {
	s, err := f.shop.Sale(r.Context(), r.PathValue("sku"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, map[string]any{"sku": s.SKU, "total": s.Total, "state": "open"})
}

func (f front) open(w http.ResponseWriter, r *http.Request, _ string) error {
	var body struct {
		Total    int   `json:"total"`
		PerBuyer int   `json:"per_buyer_limit"`
		WindowS  int64 `json:"payment_window_s"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return &problem{http.StatusBadRequest, "invalid_request"}
	}
	s := shops.Sale{SKU: r.PathValue("sku"), Total: body.Total, PerBuyer: body.PerBuyer, WindowMS: body.WindowS * 1000}
	if err := f.shop.Open(r.Context(), s); err != nil {
		return err
	}
	return answer(w, http.StatusCreated, map[string]any{"sku": s.SKU})
}

func (f front) audit(w http.ResponseWriter, r *http.Request, _ string) error {
	sku := r.PathValue("sku")
	s, err := f.shop.Sale(r.Context(), sku)
	if err != nil {
		return err
	}
	stock, err := f.shop.Stock(r.Context(), sku)
	if err != nil {
		return err
	}
	a := orders.Audit{SKU: sku, Total: int64(s.Total), Available: int64(stock.Available), Held: int64(stock.Held), Restoring: int64(stock.Restoring)}
	if a.Pending, a.Paid, err = f.shop.Sold(r.Context(), sku); err != nil {
		return err
	}
	a.Sold = a.Pending + a.Paid
	a.Oversold = max(0, a.Sold-a.Total)
	a.Drift = a.Total - (a.Available + a.Held + a.Sold + a.Restoring)
	a.Balanced = a.Drift == 0 && a.Oversold == 0
	return answer(w, http.StatusOK, a)
}

func (f front) rows(w http.ResponseWriter, r *http.Request, _ string) error {
	sku, limit := r.PathValue("sku"), 100
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
		limit = n
	}
	if _, err := f.shop.Sale(r.Context(), sku); err != nil {
		return err
	}
	all, err := f.shop.Orders(r.Context(), sku, r.URL.Query().Get("cursor"), limit)
	if err != nil {
		return err
	}
	list, next := make([]order, len(all)), ""
	for i, o := range all {
		list[i] = shown(o)
		if len(all) == limit {
			next = o.ID
		}
	}
	return answer(w, http.StatusOK, map[string]any{"orders": list, "next_cursor": next})
}

// order is an order as the contract has it.
type order struct {
	ID        string     `json:"id"`
	SKU       string     `json:"sku"`
	Buyer     string     `json:"buyer"`
	Quantity  int        `json:"quantity"`
	Status    string     `json:"status"`
	Key       string     `json:"idempotency_key"`
	CreatedAt *time.Time `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	PaidAt    *time.Time `json:"paid_at"`
	ClosedAt  *time.Time `json:"closed_at"`
}

func shown(o shops.Order) order {
	at := func(ms int64) *time.Time {
		if ms == 0 {
			return nil
		}
		t := time.UnixMilli(ms).UTC()
		return &t
	}
	return order{o.ID, o.SKU, o.Buyer, o.Quantity, o.Status, o.Key, at(o.CreatedMS), at(o.ExpiresMS), at(o.PaidMS), at(o.ClosedMS)}
}
