package main

import (
	"context"
	"fmt"
)

type orderCommand struct {
	Show orderShow `cmd:"" help:"Show one order, as its buyer sees it."`
}

type orderShow struct {
	ID          string `arg:"" help:"The order's id."`
	Buyer       string `required:"" placeholder:"NAME" help:"The order's buyer: nobody else's token finds it."`
	serverFlags `embed:""`
}

// Run asks with a token of the buyer's.
func (c *orderShow) Run(ctx context.Context, s streams) error {
	server, err := c.as(c.Buyer, false)
	if err != nil {
		return err
	}
	o, err := server.Order(ctx, c.ID)
	if err != nil {
		return err
	}
	return facts(s.out,
		"id", o.ID, "sku", o.SKU, "buyer", o.Buyer, "status", o.Status, "reason", o.Reason,
		"quantity", fmt.Sprint(o.Quantity), "amount", money(o.Amount, o.Currency),
		"created", moment(o.CreatedAt), "expires", moment(o.ExpiresAt), "paid", moment(o.PaidAt), "closed", moment(o.ClosedAt))
}
