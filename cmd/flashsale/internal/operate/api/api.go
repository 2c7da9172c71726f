// Package api is the API as an operator's commands use it.
package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"flashsale/loadtest/client"
	"flashsale/orders/store"
)

// A Client asks one server.
type Client struct{ server client.Operator }

// timeout of one call: longer than the server waits for anything.
const timeout = 30 * time.Second

// New returns a client of target, which must be the URL of a server such as
// http://localhost:8080. Public calls need no token.
func New(target, token string) (*Client, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("target: %q is no URL such as http://localhost:8080", target)
	}
	return &Client{client.NewOperator(client.New(target, "", &http.Client{Timeout: timeout}), token)}, nil
}

// Terms are what an operator decides of a sale.
type Terms = client.Sale

// A Sale is one as the server shows it.
type Sale struct {
	Terms
	SKU       string `json:"sku"`
	Available int64  `json:"available"`
	State     string `json:"state"`
	ETag      string `json:"-"` // of what operators have made of it
}

// An Order is one as the server shows it. Times that have not come are nil.
type Order struct {
	ID        string     `json:"id"`
	SKU       string     `json:"sku"`
	Buyer     string     `json:"buyer"`
	Quantity  int64      `json:"quantity"`
	Amount    int64      `json:"amount"`
	Currency  string     `json:"currency"`
	Status    string     `json:"status"`
	Reason    string     `json:"reason"`
	CreatedAt *time.Time `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	PaidAt    *time.Time `json:"paid_at"`
	ClosedAt  *time.Time `json:"closed_at"`
}

// An Audit is the conservation law of one sale.
type Audit = store.Audit

// Sales are all sales of interest, the newest first.
func (c *Client) Sales(ctx context.Context) ([]Sale, error) {
	var all struct{ Sales []Sale }
	_, err := c.server.Call(ctx, http.MethodGet, "/v1/sales", nil, &all)
	return all.Sales, err
}

// Sale is one sale, and the server's clock.
func (c *Client) Sale(ctx context.Context, sku string) (Sale, time.Time, error) {
	var s Sale
	header, err := c.server.Call(ctx, http.MethodGet, "/v1/sales/"+url.PathEscape(sku), nil, &s)
	s.ETag = header.Get("ETag")
	at, _ := http.ParseTime(header.Get("Date"))
	return s, at, err
}

// Put creates or changes a sale: where an ETag is given, only one that still has it.
func (c *Client) Put(ctx context.Context, sku string, t Terms, ifMatch ...string) (Sale, error) {
	var s Sale
	_, err := c.server.Call(ctx, http.MethodPut, "/v1/admin/sales/"+url.PathEscape(sku), t, &s, ifMatch...)
	return s, err
}

// Close ends a sale now.
func (c *Client) Close(ctx context.Context, sku string) (Sale, error) {
	var s Sale
	_, err := c.server.Call(ctx, http.MethodPost, "/v1/admin/sales/"+url.PathEscape(sku)+"/close", nil, &s)
	return s, err
}

// Audit reads the conservation law of a sale.
func (c *Client) Audit(ctx context.Context, sku string) (Audit, error) {
	var a Audit
	_, err := c.server.Call(ctx, http.MethodGet, "/v1/admin/sales/"+url.PathEscape(sku)+"/audit", nil, &a)
	return a, err
}

// Order is one order of the caller.
func (c *Client) Order(ctx context.Context, id string) (Order, error) {
	var o Order
	_, err := c.server.Call(ctx, http.MethodGet, "/v1/orders/"+url.PathEscape(id), nil, &o)
	return o, err
}
