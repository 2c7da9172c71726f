// Package api is the HTTP client of the operator's commands.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"flashsale/loadtest/client"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A Client calls one server. It is safe for concurrent use.
type Client struct {
	Fault error // why the target is invalid, or nil; every call returns it

	server client.Operator
	last   atomic.Value // json.RawMessage
}

// LastResponse returns the body of the latest answer, or nil before the first one.
func (c *Client) LastResponse() json.RawMessage {
	last, _ := c.last.Load().(json.RawMessage)
	return last
}

// call makes a call and stores the answer for LastResponse. It returns an error if the answer lacks
// field, which the contract requires, because then the target is another kind of server.
func (c *Client) call(ctx context.Context, method, path string, in, out any, field string, sent ...string) (http.Header, error) {
	if c.Fault != nil {
		return nil, c.Fault
	}
	var answer json.RawMessage
	header, err := c.server.Call(ctx, method, path, in, &answer, sent...)
	if err != nil {
		return header, err
	}
	c.last.Store(answer)
	var fields map[string]any
	if err = cmp.Or(json.Unmarshal(answer, &fields), json.Unmarshal(answer, out)); err == nil && (fields[field] == nil || fields[field] == "") {
		err = fmt.Errorf("it has no %q", field)
	}
	if err != nil {
		err = fmt.Errorf("%s %s is not answered as the contract says: %w", method, path, err)
	}
	return header, err
}

// timeout limits one call, and Place. It is longer than any wait in the server.
const timeout = 30 * time.Second

// New returns a client of target, the URL of a server such as http://localhost:8080. If the
// URL is invalid, Fault is set. Public calls need no token.
func New(target, token string) *Client {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &Client{Fault: fmt.Errorf("target: %q is not an http or https URL, such as http://localhost:8080", target)}
	}
	return &Client{server: client.NewOperator(client.New(target, "", client.NewHTTP(0, timeout)), token)}
}

// Terms are the settings of a sale that an operator chooses.
type Terms = client.Sale

// A Sale describes a sale as the server returns it.
type Sale struct {
	client.Offer
	Version string // of the terms; in quotes, it is a value of If-Match
}

// An Order describes an order as the server returns it. Times in the future are nil. The key
// is nil unless an operator asks.
type Order = orders.RowJSON

// An Audit contains the terms of the conservation law for one sale.
type Audit = store.Audit

// Sales returns the public list of sales, newest first. With over, it returns a page of all sales by
// SKU, for operators only, and the cursor of the next page.
func (c *Client) Sales(ctx context.Context, over bool, cursor string) ([]Sale, string, error) {
	path := "/v1/sales"
	if over {
		path = "/v1/admin/sales?over=true&limit=500&cursor=" + url.QueryEscape(cursor)
	}
	var page struct {
		Sales []Sale
		Next  string `json:"next_cursor"`
	}
	_, err := c.call(ctx, http.MethodGet, path, nil, &page, "sales")
	return page.Sales, page.Next, err
}

// Sale returns a sale, and the time of the server's clock.
func (c *Client) Sale(ctx context.Context, sku string) (s Sale, at time.Time, err error) {
	header, err := c.call(ctx, http.MethodGet, "/v1/sales/"+url.PathEscape(sku), nil, &s, "version")
	at, _ = http.ParseTime(header.Get("Date"))
	return s, at, err
}

// PutSale creates or changes a sale. condition contains the name and value of If-Match or
// If-None-Match, or nothing.
func (c *Client) PutSale(ctx context.Context, sku string, t Terms, condition ...string) (s Sale, err error) {
	_, err = c.call(ctx, http.MethodPut, "/v1/admin/sales/"+url.PathEscape(sku), t, &s, "version", condition...)
	return s, err
}

// Close ends a sale now.
func (c *Client) Close(ctx context.Context, sku string) (s Sale, err error) {
	_, err = c.call(ctx, http.MethodPost, "/v1/admin/sales/"+url.PathEscape(sku)+"/close", nil, &s, "version")
	return s, err
}

// Void takes back paid orders of a sale.
func (c *Client) Void(ctx context.Context, sku string, ids []string, reason string) (v store.Voided, err error) {
	in := map[string]any{"orders": ids, "reason": reason}
	_, err = c.call(ctx, http.MethodPost, "/v1/admin/sales/"+url.PathEscape(sku)+"/void", in, &v, "voided")
	return v, err
}

// Audit returns the audit of a sale.
func (c *Client) Audit(ctx context.Context, sku string) (a Audit, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/admin/sales/"+url.PathEscape(sku)+"/audit", nil, &a, "sku")
	return a, err
}

// PlaceOrder orders units of a sale as the caller, under an idempotency key. If the order is not
// yet durable, PlaceOrder repeats the call with the same key until the order is decided, for up
// to 30 s.
func (c *Client) PlaceOrder(ctx context.Context, sku string, quantity int64, key string) (o Order, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := map[string]any{"sku": sku, "quantity": quantity}
	for {
		_, err = c.call(ctx, http.MethodPost, "/v1/orders", in, &o, "id", "Idempotency-Key", key)
		undecided := o.Status == orders.Reserved && (err == nil || client.StatusOf(err) == http.StatusServiceUnavailable)
		if !undecided {
			return o, err
		}
		if err := client.Wait(ctx, 200*time.Millisecond); err != nil {
			return o, fmt.Errorf("wait for order %s: it is not decided yet: %w", o.ID, err)
		}
	}
}

// Order makes a call whose answer is an order.
func (c *Client) Order(ctx context.Context, method, path string, in any) (o Order, err error) {
	_, err = c.call(ctx, method, path, in, &o, "id")
	return o, err
}

// Orders returns the caller's newest hundred orders.
func (c *Client) Orders(ctx context.Context) ([]Order, error) {
	var page struct{ Orders []Order }
	_, err := c.call(ctx, http.MethodGet, "/v1/orders?limit=100", nil, &page, "orders")
	return page.Orders, err
}

// A Page is a page of the feed of changes. Next is the cursor after its last change.
type Page struct {
	Changes []json.RawMessage
	Next    string
}

// Changes reads up to limit changes after a cursor. If there are none, the server waits for up to
// wait, which is at most 30 s.
func (c *Client) Changes(ctx context.Context, after string, limit int, wait time.Duration) (p Page, err error) {
	path := fmt.Sprintf("/v1/admin/changes?limit=%d&after=%s", limit, url.QueryEscape(after))
	_, err = c.call(ctx, http.MethodGet, path, nil, &p, "next", "Prefer", fmt.Sprint("wait=", int(wait.Seconds())))
	return p, err
}
