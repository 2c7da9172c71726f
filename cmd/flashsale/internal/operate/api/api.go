// Package api is the HTTP client of the operator's commands.
package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"flashsale/loadtest/client"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A Client calls one server. It is safe for concurrent use.
type Client struct {
	Fault error  // why there is no call, or nil; every call returns it
	Buyer string // whose token the client has, or "" for an operator's

	server string // URL, without a trailing slash
	shown  string // the URL without its password
	header http.Header
	http   *http.Client
	last   atomic.Value // json.RawMessage
}

// timeout limits one call, and Place. It is longer than any wait in the server.
const timeout = 30 * time.Second

// New returns a client of server, a URL such as http://localhost:8080. If the URL is invalid, Fault
// is set. Public calls need no token.
func New(server, token string) *Client {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &Client{Fault: &Error{Unsent: true, Code: "usage", text: fmt.Sprintf("the target %q is not an http or https URL, such as http://localhost:8080", server)}}
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return &Client{server: strings.TrimSuffix(server, "/"), shown: u.Redacted(), header: header, http: client.NewHTTP(0, timeout)}
}

// LastResponse returns the body of the latest answer, or nil before the first one.
func (c *Client) LastResponse() json.RawMessage {
	last, _ := c.last.Load().(json.RawMessage)
	return last
}

// call makes a call and stores the answer for LastResponse. It returns an error if the answer lacks
// field, which the contract requires, because then the server is of another kind. what is the sale
// or order that a 404 concerns, if there is one. header contains names and values.
func (c *Client) call(ctx context.Context, method, path string, in, out any, field, what string, header ...string) (http.Header, error) {
	if c.Fault != nil {
		return nil, c.Fault
	}
	var body []byte
	if in != nil {
		body, _ = json.Marshal(in)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, noAnswer(c.shown, err)
	}
	req.Header = c.header.Clone()
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		slog.DebugContext(ctx, "no answer", "method", method, "url", req.URL.Redacted(), "error", err)
		return nil, noAnswer(c.shown, err)
	}
	defer func() { _ = res.Body.Close() }()
	slog.DebugContext(ctx, "answer", "method", method, "url", req.URL.Redacted(), "status", res.StatusCode)
	answer, err := io.ReadAll(io.LimitReader(res.Body, client.MaxBody))
	switch {
	case err != nil:
		return nil, noAnswer(c.shown, err)
	case res.StatusCode/100 != 2:
		return res.Header, c.failure(res, answer, what)
	}
	c.last.Store(json.RawMessage(answer))
	var fields map[string]any
	if err = cmp.Or(json.Unmarshal(answer, &fields), json.Unmarshal(answer, out)); err == nil && (fields[field] == nil || fields[field] == "") {
		err = fmt.Errorf("it has no %q", field)
	}
	if err != nil {
		err = fmt.Errorf("the answer of %s is not one of flashsale: %w", c.shown, err)
	}
	return res.Header, err
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
	_, err := c.call(ctx, http.MethodGet, path, nil, &page, "sales", "")
	return page.Sales, page.Next, err
}

// Sale returns a sale, and the time of the server's clock.
func (c *Client) Sale(ctx context.Context, sku string) (s Sale, at time.Time, err error) {
	header, err := c.call(ctx, http.MethodGet, "/v1/sales/"+url.PathEscape(sku), nil, &s, "version", "sale "+sku)
	at, _ = http.ParseTime(header.Get("Date"))
	return s, at, err
}

// PutSale creates or changes a sale. condition contains the name and value of If-Match or
// If-None-Match, or nothing.
func (c *Client) PutSale(ctx context.Context, sku string, t Terms, condition ...string) (s Sale, err error) {
	_, err = c.call(ctx, http.MethodPut, "/v1/admin/sales/"+url.PathEscape(sku), t, &s, "version", "", condition...)
	return s, err
}

// Close ends a sale now.
func (c *Client) Close(ctx context.Context, sku string) (s Sale, err error) {
	_, err = c.call(ctx, http.MethodPost, "/v1/admin/sales/"+url.PathEscape(sku)+"/close", nil, &s, "version", "sale "+sku)
	return s, err
}

// Void takes back paid orders of a sale.
func (c *Client) Void(ctx context.Context, sku string, ids []string, reason string) (v store.Voided, err error) {
	in := map[string]any{"orders": ids, "reason": reason}
	_, err = c.call(ctx, http.MethodPost, "/v1/admin/sales/"+url.PathEscape(sku)+"/void", in, &v, "voided", "sale "+sku)
	return v, err
}

// Audit returns the audit of a sale.
func (c *Client) Audit(ctx context.Context, sku string) (a Audit, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/admin/sales/"+url.PathEscape(sku)+"/audit", nil, &a, "sku", "sale "+sku)
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
		_, err = c.call(ctx, http.MethodPost, "/v1/orders", in, &o, "id", "sale "+sku, "Idempotency-Key", key)
		undecided := o.Status == orders.Reserved && (err == nil || As(err).Status == http.StatusServiceUnavailable)
		if !undecided {
			return o, err
		}
		if err := client.Wait(ctx, 200*time.Millisecond); err != nil {
			return o, fmt.Errorf("wait for order %s: it is not decided yet: %w", o.ID, err)
		}
	}
}

// Order reads an order. If action is pay or cancel, it pays or cancels the order.
func (c *Client) Order(ctx context.Context, id, action string, in any) (o Order, err error) {
	method, path := http.MethodGet, "/v1/orders/"
	if c.Buyer == "" {
		path = "/v1/admin/orders/"
	}
	if path += url.PathEscape(id); action != "" {
		method, path = http.MethodPost, path+"/"+action
	}
	_, err = c.call(ctx, method, path, in, &o, "id", "order "+id)
	return o, err
}

// Orders returns the caller's newest hundred orders.
func (c *Client) Orders(ctx context.Context) ([]Order, error) {
	var page struct{ Orders []Order }
	_, err := c.call(ctx, http.MethodGet, "/v1/orders?limit=100", nil, &page, "orders", "")
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
	_, err = c.call(ctx, http.MethodGet, path, nil, &p, "next", "", "Prefer", fmt.Sprint("wait=", int(wait.Seconds())))
	return p, err
}

// Ready returns why the node is degraded, or "". It returns an error unless the node can sell.
func (c *Client) Ready(ctx context.Context) (string, error) {
	if c.Fault == nil {
		c.http.Transport.(*http.Transport).Proxy = nil // a proxy of the environment is not for this machine
	}
	var answer struct{ Detail string }
	_, err := c.call(ctx, http.MethodGet, "", nil, &answer, "status", "")
	return answer.Detail, err
}
