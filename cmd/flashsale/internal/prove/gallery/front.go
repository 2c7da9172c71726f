package gallery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// A front serves a shop by the routes of the API contract that a load test uses.
// It is the same for every shop, requires the same tokens as the real service, and
// has no logic of stock.
type front struct {
	shop     variants.Shop
	verifier *auth.Verifier
}

// A handler returns the body of an answer, or an error. The error may be a problem.
type handler func(w http.ResponseWriter, r *http.Request, buyer string) (body any, err error)

func (f front) handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"GET /livez", "GET /readyz"} {
		mux.HandleFunc(path, func(http.ResponseWriter, *http.Request) {})
	}
	route := func(pattern string, admin bool, status int, h handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "gallery")
			who, err := f.verifier.FromHeader(r.Header.Get("Authorization"))
			var body any
			switch {
			case err != nil:
				err = &problem{http.StatusUnauthorized, "unauthorized"}
			case admin && !who.Admin:
				err = &problem{http.StatusForbidden, "forbidden"}
			default:
				body, err = h(w, r, who.Buyer)
			}
			if err != nil {
				fail(w, err)
				return
			}
			write(w, "application/json", status, body)
		})
	}
	cancel := func(ctx context.Context, o variants.Order) error { return f.shop.Close(ctx, o, variants.Cancelled) }
	route("POST /v1/orders", false, http.StatusCreated, f.place)
	route("GET /v1/orders/{id}", false, http.StatusOK, f.get)
	route("POST /v1/orders/{id}/pay", false, http.StatusOK, f.change(variants.Paid, f.shop.Pay))
	route("POST /v1/orders/{id}/cancel", false, http.StatusOK, f.change(variants.Cancelled, cancel))
	route("GET /v1/sales/{sku}", false, http.StatusOK, f.sale)
	route("PUT /v1/admin/sales/{sku}", true, http.StatusCreated, f.open)
	route("GET /v1/admin/sales/{sku}/audit", true, http.StatusOK, f.audit)
	route("GET /v1/admin/sales/{sku}/orders", true, http.StatusOK, f.rows)
	return mux
}

func write(w http.ResponseWriter, kind string, status int, body any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // writing fails if the client has gone
}

// A problem is an error answer of the API contract.
type problem struct {
	status int
	code   string
}

func (p *problem) Error() string { return fmt.Sprint(p.status, " ", p.code) }

var problems = map[error]*problem{
	variants.ErrSoldOut:    {http.StatusConflict, "sold_out"},
	variants.ErrBuyerLimit: {http.StatusConflict, "buyer_limit"},
	variants.ErrNotFound:   {http.StatusNotFound, "not_found"},
}

// fail answers with a problem. An error that is not a refusal comes from a failed
// store or a busy shop. It is answered with 503, and the buyer retries with the same
// key.
func fail(w http.ResponseWriter, err error) {
	p := &problem{http.StatusServiceUnavailable, "unavailable"}
	if !errors.As(err, &p) {
		for refusal, known := range problems {
			if errors.Is(err, refusal) {
				p = known
			}
		}
	}
	if p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	write(w, "application/problem+json", p.status, map[string]any{"title": http.StatusText(p.status), "status": p.status, "code": p.code})
}

func (f front) place(w http.ResponseWriter, r *http.Request, buyer string) (any, error) {
	var body struct {
		SKU      string `json:"sku"`
		Quantity int    `json:"quantity"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Quantity < 1 {
		return nil, &problem{http.StatusBadRequest, "invalid_request"}
	}
	s, err := f.shop.Sale(r.Context(), body.SKU)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	at := time.Now().UnixMilli()
	o, replayed, err := f.shop.Order(r.Context(), variants.Order{
		ID: id.String(), SKU: body.SKU, Buyer: buyer, Key: r.Header.Get("Idempotency-Key"), Quantity: body.Quantity,
		Status: variants.Pending, CreatedMS: at, ExpiresMS: at + s.WindowMS,
	})
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/v1/orders/"+o.ID)
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	return shown(o), nil
}

// mine returns the order named by the path, or ErrNotFound if another buyer has it.
func (f front) mine(r *http.Request, buyer string) (variants.Order, error) {
	o, err := f.shop.Find(r.Context(), r.PathValue("id"))
	if err == nil && o.Buyer != buyer {
		err = variants.ErrNotFound
	}
	return o, err
}

func (f front) get(_ http.ResponseWriter, r *http.Request, buyer string) (any, error) {
	o, err := f.mine(r, buyer)
	return shown(o), err
}

// change returns a handler that pays or cancels an order. Its answer depends on the
// status that the order has afterwards.
func (f front) change(want string, do func(context.Context, variants.Order) error) handler {
	return func(_ http.ResponseWriter, r *http.Request, buyer string) (any, error) {
		o, err := f.mine(r, buyer)
		if err == nil {
			err = do(r.Context(), o)
		}
		if err != nil {
			return nil, err
		}
		o, err = f.mine(r, buyer)
		switch {
		case err != nil || o.Status == want:
			return shown(o), err
		case o.Status == variants.Paid:
			return nil, &problem{http.StatusConflict, "already_paid"}
		}
		return nil, &problem{http.StatusConflict, "order_closed"}
	}
}

func (f front) sale(_ http.ResponseWriter, r *http.Request, _ string) (any, error) {
	s, err := f.shop.Sale(r.Context(), r.PathValue("sku"))
	return map[string]any{"sku": s.SKU, "total": s.Total, "state": "open"}, err
}

func (f front) open(_ http.ResponseWriter, r *http.Request, _ string) (any, error) {
	var body client.Sale
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return nil, &problem{http.StatusBadRequest, "invalid_request"}
	}
	s := variants.Sale{
		SKU: r.PathValue("sku"), Total: int(body.Total), UnitsPerBuyer: int(body.UnitsPerBuyer), WindowMS: body.PaymentWindowS * 1000,
		OnPayment: body.ReserveOn == judge.OnPayment,
	}
	return map[string]any{"sku": s.SKU}, f.shop.Open(r.Context(), s)
}

func (f front) audit(_ http.ResponseWriter, r *http.Request, _ string) (any, error) {
	sku := r.PathValue("sku")
	s, err := f.shop.Sale(r.Context(), sku)
	if err != nil {
		return nil, err
	}
	stock, err := f.shop.Stock(r.Context(), sku)
	if err != nil {
		return nil, err
	}
	a := judge.Audit{SKU: sku, Total: s.Total, Available: stock.Available, Queued: stock.Queued, Restoring: stock.Restoring}
	a.Pending, a.Paid, err = f.shop.Sold(r.Context(), sku)
	a.Sold = a.Pending + a.Paid
	a.Oversold = max(0, a.Sold-a.Total)
	a.Drift = a.Total - (a.Available + a.Queued + a.Sold + a.Restoring)
	a.Balanced = a.Drift == 0 && a.Oversold == 0
	return a, err
}

func (f front) rows(_ http.ResponseWriter, r *http.Request, _ string) (any, error) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit")) // the load test always sends a valid limit
	all, err := f.shop.Orders(r.Context(), r.PathValue("sku"), r.URL.Query().Get("cursor"), limit)
	list, next := make([]judge.Row, len(all)), ""
	for i, o := range all {
		list[i] = shown(o)
		if len(all) == limit {
			next = o.ID
		}
	}
	return map[string]any{"orders": list, "next_cursor": next}, err
}

// shown returns an order in the form that the load test reads.
func shown(o variants.Order) judge.Row {
	at := func(ms int64) (t time.Time) {
		if ms > 0 {
			t = time.UnixMilli(ms).UTC()
		}
		return t
	}
	return judge.Row{Key: o.Key, Order: judge.Order{
		ID: o.ID, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity, Status: o.Status,
		ExpiresAt: at(o.ExpiresMS), PaidAt: at(o.PaidMS), ClosedAt: at(o.ClosedMS),
	}}
}
