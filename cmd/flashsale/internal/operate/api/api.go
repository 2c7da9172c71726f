// Package api is the API as an operator's commands use it.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"flashsale/loadtest/client"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A Client asks one server. It is safe for concurrent use.
type Client struct {
	Fault error // why no call can be made, which each call returns; nil: none

	server client.Operator
	last   atomic.Value // json.RawMessage
}

// Last is the server's latest answer, as it came; nil before the first.
func (c *Client) Last() json.RawMessage {
	last, _ := c.last.Load().(json.RawMessage)
	return last
}

// call is the operator's, and keeps the answer. An answer without the field that all
// of its kind have is another server's.
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

// timeout of one call, and of Place: longer than the server waits for anything.
const timeout = 30 * time.Second

// New returns a client of target, which must be the URL of a server such as
// http://localhost:8080: else it is the client's Fault. Public calls need no token.
func New(target, token string) *Client {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &Client{Fault: fmt.Errorf("target: %q is no URL such as http://localhost:8080", target)}
	}
	return &Client{server: client.NewOperator(client.New(target, "", client.NewHTTP(0, timeout)), token)}
}

// Terms are what an operator decides of a sale.
type Terms = client.Sale

// A Sale is one as the server shows it.
type Sale struct {
	client.Offer
	ETag string `json:"-"` // of what operators have made of it
}

// An Order is one as the server shows it. Times that have not come are nil, and so is
// the key where no operator asks.
type Order = orders.RowJSON

// An Audit is the conservation law of one sale.
type Audit = store.Audit

// Sales are all sales of interest, the newest first.
func (c *Client) Sales(ctx context.Context) ([]Sale, error) {
	var all struct{ Sales []Sale }
	_, err := c.call(ctx, http.MethodGet, "/v1/sales", nil, &all, "sales")
	return all.Sales, err
}

// Sale is one sale, and the server's clock.
func (c *Client) Sale(ctx context.Context, sku string) (s Sale, at time.Time, err error) {
	header, err := c.call(ctx, http.MethodGet, "/v1/sales/"+url.PathEscape(sku), nil, &s, "sku")
	s.ETag = header.Get("ETag")
	at, _ = http.ParseTime(header.Get("Date"))
	return s, at, err
}

// Put creates or changes a sale: where an ETag is given, only one that still has it.
func (c *Client) Put(ctx context.Context, sku string, t Terms, ifMatch ...string) (s Sale, err error) {
	_, err = c.call(ctx, http.MethodPut, "/v1/admin/sales/"+url.PathEscape(sku), t, &s, "sku", "If-Match", strings.Join(ifMatch, ", "))
	return s, err
}

// Close ends a sale now.
func (c *Client) Close(ctx context.Context, sku string) (s Sale, err error) {
	_, err = c.call(ctx, http.MethodPost, "/v1/admin/sales/"+url.PathEscape(sku)+"/close", nil, &s, "sku")
	return s, err
}

// Audit reads the conservation law of a sale.
func (c *Client) Audit(ctx context.Context, sku string) (a Audit, err error) {
	_, err = c.call(ctx, http.MethodGet, "/v1/admin/sales/"+url.PathEscape(sku)+"/audit", nil, &a, "sku")
	return a, err
}

// Place orders units of a sale as the caller, under an idempotency key. An order that
// is not durable yet is asked for again, under the same key, until it is decided, for
// up to 30 s.
func (c *Client) Place(ctx context.Context, sku string, quantity int64, key string) (o Order, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in := map[string]any{"sku": sku, "quantity": quantity}
	for {
		_, err = c.call(ctx, http.MethodPost, "/v1/orders", in, &o, "id", "Idempotency-Key", key)
		onItsWay := o.Status == orders.Reserved && (err == nil || client.StatusOf(err) == http.StatusServiceUnavailable)
		if !onItsWay {
			return o, err
		}
		if err := client.Wait(ctx, 200*time.Millisecond); err != nil {
			return o, fmt.Errorf("order %s is not decided yet: %w", o.ID, err)
		}
	}
}

// Order makes a call that is answered with an order.
func (c *Client) Order(ctx context.Context, method, path string, in any) (o Order, err error) {
	_, err = c.call(ctx, method, path, in, &o, "id")
	return o, err
}

// Orders are the caller's, the newest hundred.
func (c *Client) Orders(ctx context.Context) ([]Order, error) {
	var page struct{ Orders []Order }
	_, err := c.call(ctx, http.MethodGet, "/v1/orders?limit=100", nil, &page, "orders")
	return page.Orders, err
}
