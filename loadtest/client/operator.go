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

// ErrSKUInUse means that the sale already has orders. A load test cannot judge a sale with
// earlier orders, because it has no records of the clients that made these orders.
var ErrSKUInUse = errors.New("loadtest: the SKU has orders already, which would falsify the verdict")

// Operator opens and reads a sale with an admin's token.
type Operator struct {
	Client
	as Buyer
}

// failure is an answer to an operator that is not 2xx. Code, Detail and Errors are the fields of
// the problem document.
type failure struct {
	call         string
	status       int
	location     string // target of a redirect
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

// Printable replaces the characters of text that are not printable. A terminal would interpret
// them as control sequences.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// StatusOf returns the HTTP status of an error of Call, or 0 if the server did not answer.
func StatusOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	return 0
}

// Call sends in as JSON and decodes a 2xx answer into out. Both may be nil. header contains the
// name and value of an optional request header. Call returns the header of the answer.
func (o *Operator) Call(ctx context.Context, method, path string, in, out any, header ...string) (http.Header, error) {
	var body []byte
	var err error
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	header = append(header, "", "")
	status, answered, got, err := o.do(ctx, method, path, o.as, header[0], header[1], body)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w (flashsale serve starts a server)", err)
	}
	if err != nil {
		return nil, err // err contains the method and the URL
	}
	call := method + " " + o.base + path
	if status/100 != 2 {
		f := &failure{call: call, status: status, location: answered.Get("Location")}
		_ = json.Unmarshal(got, f) // a body that is not a problem document adds nothing
		return answered, f
	}
	if out == nil {
		return answered, nil
	}
	if err := json.Unmarshal(got, out); err != nil {
		return answered, fmt.Errorf("%s is not answered as the contract says: %w", call, err)
	}
	return answered, nil
}

// NewOperator returns an Operator that authenticates with token.
func NewOperator(c Client, token string) Operator {
	return Operator{Client: c, as: Buyer{Subject: "loadtest-operator", Token: token}}
}

// JudgedNamePrefix is the prefix of the name of a sale in which the judge counts orders of other
// clients as violations. A shop's page should not offer a sale whose name has this prefix.
const JudgedNamePrefix = "Load test: "

// Sale contains the settings of a sale that an operator sends, as in the contract.
type Sale struct {
	Name           string    `json:"name"`
	Description    string    `json:"description,omitempty"`
	ImageURL       string    `json:"image_url,omitempty"` // an https URL or a path on the server
	Price          int64     `json:"price"`               // price of one unit, in minor units of the currency
	Currency       string    `json:"currency"`
	Total          int64     `json:"total"` // number of units
	UnitsPerBuyer  int64     `json:"per_buyer_limit"`
	OpensAt        time.Time `json:"opens_at"`  // set by Open
	ClosesAt       time.Time `json:"closes_at"` // set by Open
	PaymentWindowS int64     `json:"payment_window_s"`
	ReserveOn      string    `json:"reserve_on,omitempty"` // "order", "payment", or empty for the server's default
}

// Offer is a sale as buyers see it.
type Offer struct {
	Sale
	SKU       string `json:"sku"`
	State     string `json:"state"` // "scheduled", "open", "sold_out" or "closed"
	Available int64  `json:"available"`
}

// Open creates the sale and waits up to patience until the sale is open. It returns ErrSKUInUse if
// the SKU has orders.
func (o *Operator) Open(ctx context.Context, sale Sale, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := o.page(ctx, "", 1)
	for StatusOf(err) == http.StatusServiceUnavailable && Wait(ctx, 50*time.Millisecond) == nil {
		page, err = o.page(ctx, "", 1)
	}
	switch {
	case StatusOf(err) == http.StatusNotFound: // the SKU is new
	case err != nil:
		return err
	case len(page.Orders) > 0:
		return fmt.Errorf("%w: %s", ErrSKUInUse, o.sku)
	}
	// The server's clock may differ from this process's clock, so the opening time is in the
	// past.
	now := time.Now().UTC().Truncate(time.Millisecond)
	sale.OpensAt, sale.ClosesAt = now.Add(-time.Hour), now.Add(24*time.Hour)
	// An order before the opening would receive not_open, which the judge counts as a wrong answer.
	for put := false; ; {
		if !put {
			_, err = o.Call(ctx, http.MethodPut, "/v1/admin/sales/"+o.sku, sale, nil)
			// 503 means that the sale may be stored, but is not yet at the gate.
			if put = err == nil; !put && StatusOf(err) != http.StatusServiceUnavailable {
				return err
			}
		}
		s, err := o.Offer(ctx)
		if err == nil && s.State == "open" {
			return nil
		}
		if Wait(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("loadtest: sale %s did not open (state %q): %w", o.sku, s.State, errors.Join(err, ctx.Err()))
		}
	}
}

// End closes the sale.
func (o *Operator) End(ctx context.Context) error {
	_, err := o.Call(ctx, http.MethodPost, "/v1/admin/sales/"+o.sku+"/close", nil, nil)
	return err
}

// Offer reads the sale as a buyer sees it.
func (o *Operator) Offer(ctx context.Context) (sale Offer, err error) {
	_, err = o.Call(ctx, http.MethodGet, "/v1/sales/"+o.sku, nil, &sale)
	return sale, err
}

// About reads the description of the shop.
func (o *Operator) About(ctx context.Context) (about judge.About, err error) {
	_, err = o.Call(ctx, http.MethodGet, "/v1/about", nil, &about)
	return about, err
}

// Audit reads the audit of the sale.
func (o *Operator) Audit(ctx context.Context) (a judge.Audit, err error) {
	_, err = o.Call(ctx, http.MethodGet, "/v1/admin/sales/"+o.sku+"/audit", nil, &a)
	return a, err
}

// pageSize is the number of rows per page.
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

// Rows reads all stored orders of the sale.
func (o *Operator) Rows(ctx context.Context) ([]judge.Row, error) {
	var all []judge.Row
	cursor, seen := "", map[string]bool{}
	for {
		p, err := o.page(ctx, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		// A server with a faulty cursor must not keep the run in an endless loop.
		if len(p.Orders) > 0 && seen[p.Orders[0].ID] {
			return nil, fmt.Errorf("loadtest: list the orders: the page after %q begins with order %s again", cursor, p.Orders[0].ID)
		}
		for _, row := range p.Orders {
			seen[row.ID] = true
		}
		all = append(all, p.Orders...)
		if p.Next == "" {
			return all, nil
		}
		if p.Next == cursor || len(p.Orders) == 0 {
			return nil, fmt.Errorf("loadtest: list the orders: the next page repeats the cursor %q or is empty", cursor)
		}
		cursor = p.Next
	}
}

// Wait waits for d. If ctx ends first, it returns ctx.Err().
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
