package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
	"flashsale/orders/store"
)

type orderCommand struct {
	List   orderList   `cmd:"" help:"List a buyer's newest orders."`
	Show   orderShow   `cmd:"" help:"Show one order, as an operator or as its buyer."`
	Pay    orderPay    `cmd:"" help:"Pay for an order, as its buyer."`
	Cancel orderCancel `cmd:"" help:"Cancel an order that is not paid, as its buyer."`
	Void   orderVoid   `cmd:"" help:"Take paid orders back, as an operator."`
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
	if len(list) == 0 {
		_, err := fmt.Fprintln(s.out, c.Buyer, "has no orders")
		return err
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
	return c.order(ctx, s, c.Buyer, c.ID, "", nil)
}

type orderPay struct {
	Ref         string  `required:"" placeholder:"TEXT" help:"Reference of the payment. A repeated payment with the same reference has no further effect."`
	Amount      *int64  `placeholder:"AMOUNT" help:"The charged amount, in minor units. If the order has another amount, it is not paid, and a refund is claimed."`
	Currency    *string `placeholder:"CODE" help:"Currency of the charge (ISO 4217). If the order has another currency, it is not paid, and a refund is claimed."`
	orderCancel `embed:""`
}

// Run pays for the order.
func (c *orderPay) Run(ctx context.Context, s streams) error {
	in := map[string]any{"payment_ref": c.Ref}
	if c.Amount != nil {
		in["amount"] = *c.Amount
	}
	if c.Currency != nil {
		in["currency"] = *c.Currency
	}
	return c.order(ctx, s, c.Buyer, c.ID, "pay", in)
}

type orderCancel struct {
	ID          string `arg:"" help:"The order's id."`
	Buyer       string `required:"" placeholder:"NAME" help:"The order's buyer."`
	answerFlags `embed:""`
}

// Run cancels the order.
func (c *orderCancel) Run(ctx context.Context, s streams) error {
	return c.order(ctx, s, c.Buyer, c.ID, "cancel", nil)
}

type orderVoid struct {
	IDs         []string `arg:"" name:"id" help:"The ids of the orders."`
	SKU         string   `name:"sku" placeholder:"SKU" help:"SKU of the orders. Default: the SKU of the first order."`
	Reason      string   `default:"voided" placeholder:"TEXT" help:"Reason of the refund claims: 1 to 32 visible ASCII characters. Default ${default}."`
	answerFlags `embed:""`
}

// Help explains the effect.
func (orderVoid) Help() string {
	return `The orders are cancelled, their units are on sale again about a second later, and a
refund is claimed for each payment. Repeating the command changes nothing.

  flashsale order void 01932c07-… 01932c08-… --reason bots`
}

// Run takes the orders back, and prints one line per order. With --json, it prints one object per
// call of the API. It returns an error if an order is not taken back, now or before.
func (c *orderVoid) Run(ctx context.Context, s streams) error {
	server := c.operator()
	if c.SKU == "" {
		o, err := server.Order(ctx, c.IDs[0], "", nil)
		if err != nil {
			return err
		}
		c.SKU = o.SKU
	}
	left := 0
	for ids := range slices.Chunk(c.IDs, store.MaxVoid) {
		v, err := server.Void(ctx, c.SKU, ids, c.Reason)
		var results []string
		for _, id := range v.Voided {
			results = append(results, id, "voided")
		}
		for _, skipped := range v.Skipped {
			results = append(results, client.Printable(skipped.ID), skipped.Why)
			if skipped.Why != "already_voided" {
				left++
			}
		}
		if err := c.print(s, server, err, results...); err != nil {
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("take back orders of %s: %d of %d are not paid orders of this sale", c.SKU, left, len(c.IDs))
	}
	return nil
}

// order reads, pays or cancels an order and prints it. If buyer is empty, it sends an operator's
// token.
func (f *answerFlags) order(ctx context.Context, s streams, buyer, id, action string, in any) error {
	server := f.as(cmp.Or(buyer, "operator"), buyer == "")
	o, err := server.Order(ctx, id, action, in)
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
