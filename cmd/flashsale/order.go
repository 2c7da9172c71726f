package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/report"
)

type orderCommand struct {
	List   orderList   `cmd:"" help:"List a buyer's newest orders."`
	Show   orderShow   `cmd:"" help:"Show one order, as an operator or as its buyer."`
	Pay    orderPay    `cmd:"" help:"Pay for an order, as its buyer."`
	Cancel orderCancel `cmd:"" help:"Cancel an order that is not paid, as its buyer."`
}

type orderList struct {
	Buyer       string `required:"" placeholder:"NAME" help:"Name of the buyer, whose newest hundred orders are listed."`
	answerFlags `embed:""`
}

// Run prints one line per order.
func (c *orderList) Run(ctx context.Context, s streams) error {
	server := c.as(c.Buyer, false)
	list, err := server.Orders(ctx)
	if err != nil || c.JSON {
		return c.print(s, server, err)
	}
	var t report.Text
	t.Row("ID", "SKU", "QUANTITY", "AMOUNT", "STATUS", "CREATED")
	for _, o := range list {
		t.Row(o.ID, o.SKU, o.Quantity, money(o.Amount, o.Currency), o.Status, moment((*time.Time)(o.CreatedAt)))
	}
	return t.Write(s.out)
}

type orderShow struct {
	ID          string `arg:"" help:"The order's id."`
	Buyer       string `placeholder:"NAME" help:"Name of the buyer who reads the order. Default: an operator reads it."`
	answerFlags `embed:""`
}

// Run shows the order. A buyer sees only their own orders, an operator sees all.
func (c *orderShow) Run(ctx context.Context, s streams) error {
	path := "/v1/orders/"
	if c.Buyer == "" {
		path = "/v1/admin/orders/"
	}
	return c.order(ctx, s, c.Buyer, http.MethodGet, path+url.PathEscape(c.ID), nil)
}

type orderPay struct {
	Ref         string `required:"" placeholder:"TEXT" help:"Reference of the payment. A repeated payment with the same reference has no further effect."`
	orderCancel `embed:""`
}

// Run pays for the order.
func (c *orderPay) Run(ctx context.Context, s streams) error {
	return c.order(ctx, s, c.Buyer, http.MethodPost, "/v1/orders/"+url.PathEscape(c.ID)+"/pay", map[string]string{"payment_ref": c.Ref})
}

type orderCancel struct {
	ID          string `arg:"" help:"The order's id."`
	Buyer       string `required:"" placeholder:"NAME" help:"The order's buyer."`
	answerFlags `embed:""`
}

// Run cancels the order.
func (c *orderCancel) Run(ctx context.Context, s streams) error {
	return c.order(ctx, s, c.Buyer, http.MethodPost, "/v1/orders/"+url.PathEscape(c.ID)+"/cancel", nil)
}

// order sends a request and prints the order of the response. If buyer is empty, it sends
// an operator's token.
func (f *answerFlags) order(ctx context.Context, s streams, buyer, method, path string, in any) error {
	server := f.as(cmp.Or(buyer, "operator"), buyer == "")
	o, err := server.Order(ctx, method, path, in)
	return f.printOrder(s, server, o, err)
}

func (f *answerFlags) printOrder(s streams, server *api.Client, o api.Order, err error) error {
	key := ""
	if o.Key != nil {
		key = *o.Key
	}
	return f.print(s, server, err,
		"id", o.ID, "sku", o.SKU, "buyer", o.Buyer, "key", key, "status", string(o.Status), "reason", string(o.Reason),
		"quantity", fmt.Sprint(o.Quantity), "amount", money(o.Amount, o.Currency),
		"created", moment((*time.Time)(o.CreatedAt)), "expires", moment((*time.Time)(o.ExpiresAt)), "paid", moment((*time.Time)(o.PaidAt)), "closed", moment((*time.Time)(o.ClosedAt)))
}
