package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"

	"flashsale/loadtest/judge"
)

// ErrSKUInUse says that the sale has orders already. This run does not know
// their clients, so it could not judge the sale.
var ErrSKUInUse = errors.New("loadtest: the SKU has orders already")

// Operator opens a sale and reads it, with an admin's token.
type Operator struct {
	Client
	as Buyer
}

// failure is an answer other than the one that an operator needs. The fields from
// Code on are the problem's.
type failure struct {
	call         string
	status       int
	location     string // of a redirect: the contract has none
	Code, Detail string
	Errors       []struct{ Field, Detail string }
}

func (f *failure) Error() string {
	if f.status == http.StatusNotFound {
		return "not found: " + f.call
	}
	text := fmt.Sprintf("%s: %d %s", f.call, f.status, f.Code)
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	for _, e := range f.Errors {
		text += " " + e.Field + " " + e.Detail + "."
	}
	if f.status == http.StatusUnauthorized || f.status == http.StatusForbidden {
		text += " (are the tokens signed with the server's secret?)"
	}
	if f.status/100 == 3 {
		text += "the server is at " + f.location
	}
	return Printable(text)
}

// Printable is text of somebody else's for a terminal, which would obey what is
// not printable in it.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// StatusOf is the status behind err, 0 if the server did not answer.
func StatusOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	return 0
}

// Call sends in and decodes a 2xx into out; either may be nil. A header is sent where
// its name and value are given. It returns the answer's header.
func (o *Operator) Call(ctx context.Context, method, path string, in, out any, sent ...string) (http.Header, error) {
	var body []byte
	var err error
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	sent = append(sent, "", "")
	status, header, got, err := o.do(ctx, method, path, o.as, sent[0], sent[1], body)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w (flashsale serve starts a server)", err)
	}
	if err != nil {
		return nil, err // it names method and URL
	}
	call := method + " " + o.base + path
	if status/100 != 2 {
		f := &failure{call: call, status: status, location: header.Get("Location")}
		_ = json.Unmarshal(got, f) // what is no problem is told by its status
		return header, f
	}
	if out == nil {
		return header, nil
	}
	if err := json.Unmarshal(got, out); err != nil {
		return header, fmt.Errorf("%s is not answered as the contract says: %w", call, err)
	}
	return header, nil
}

// NewOperator is an operator who signs in with token.
func NewOperator(c Client, token string) Operator {
	return Operator{Client: c, as: Buyer{Subject: "loadtest-operator", Token: token}}
}

// Judged begins the name of a sale in which an order of anybody but the load test
// is a violation. A shop's page should offer no such sale to buy from.
const Judged = "Load test: "

// Sale is what an operator decides of a sale, as in the contract.
type Sale struct {
	Name           string    `json:"name"`
	Description    string    `json:"description,omitempty"`
	ImageURL       string    `json:"image_url,omitempty"` // https, or a path on the server
	Price          int64     `json:"price"`               // of one unit, minor units of the currency
	Currency       string    `json:"currency"`
	Total          int64     `json:"total"` // units
	PerBuyerLimit  int64     `json:"per_buyer_limit"`
	OpensAt        time.Time `json:"opens_at"` // this and the next: Open fills it in
	ClosesAt       time.Time `json:"closes_at"`
	PaymentWindowS int64     `json:"payment_window_s"`
	ReserveOn      string    `json:"reserve_on,omitempty"` // order or payment; empty: the server's default
}

// Offer is a sale as everybody sees it.
type Offer struct {
	Sale
	SKU       string `json:"sku"`
	State     string `json:"state"` // scheduled, open, sold_out or closed
	Available int64  `json:"available"`
}

// Open creates the sale and waits, for up to 30 s, until buyers may order. It
// returns ErrSKUInUse if the SKU has orders.
func (o *Operator) Open(ctx context.Context, sale Sale) error {
	page, err := o.page(ctx, "", 1)
	switch {
	case StatusOf(err) == http.StatusNotFound: // nobody has used the SKU
	case err != nil:
		return err
	case len(page.Orders) > 0:
		return fmt.Errorf("%w: %s", ErrSKUInUse, o.sku)
	}
	// The server's clock may differ from this one, so the sale opens in the past.
	now := time.Now().UTC().Truncate(time.Millisecond)
	sale.OpensAt, sale.ClosesAt = now.Add(-time.Hour), now.Add(24*time.Hour)
	_, err = o.Call(ctx, http.MethodPut, "/v1/admin/sales/"+o.sku, sale, nil)
	// 503 means that the sale is stored, but not yet at the gate.
	if err != nil && StatusOf(err) != http.StatusServiceUnavailable {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// An order before that would hear not_open, which counts as a wrong answer.
	for {
		s, err := o.Offer(ctx)
		if err == nil && s.State == "open" {
			return nil
		}
		if Wait(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("loadtest: sale %s did not open (state %q): %w", o.sku, s.State, errors.Join(err, ctx.Err()))
		}
	}
}

// Offer reads the sale, as every buyer may.
func (o *Operator) Offer(ctx context.Context) (sale Offer, err error) {
	_, err = o.Call(ctx, http.MethodGet, "/v1/sales/"+o.sku, nil, &sale)
	return sale, err
}

// Audit reads where the units of the sale are now.
func (o *Operator) Audit(ctx context.Context) (a judge.Audit, err error) {
	_, err = o.Call(ctx, http.MethodGet, "/v1/admin/sales/"+o.sku+"/audit", nil, &a)
	return a, err
}

// pageSize is rows per page, small enough for any server's cap.
const pageSize = 100

type page struct {
	Orders []judge.Row `json:"orders"`
	Next   string      `json:"next_cursor"`
}

func (o *Operator) page(ctx context.Context, cursor string, limit int) (p page, err error) {
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	_, err = o.Call(ctx, http.MethodGet, "/v1/admin/sales/"+o.sku+"/orders?"+q.Encode(), nil, &p)
	return p, err
}

// Rows reads every stored order of the sale.
func (o *Operator) Rows(ctx context.Context) ([]judge.Row, error) {
	var all []judge.Row
	cursor := ""
	for {
		p, err := o.page(ctx, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Orders...)
		if p.Next == "" {
			return all, nil
		}
		// A server whose pages go in circles must not keep the run for ever.
		if p.Next == cursor || len(p.Orders) == 0 {
			return nil, fmt.Errorf("loadtest: the list of orders does not advance past cursor %q", cursor)
		}
		cursor = p.Next
	}
}

// Wait sleeps for d, or returns why ctx ended before.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
