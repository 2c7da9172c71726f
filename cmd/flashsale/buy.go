package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"flashsale/cmd/flashsale/internal/operate/api"
)

type buyCommand struct {
	SKU         string `arg:"" help:"SKU of the sale; flashsale sale show lists all sales."`
	Quantity    int64  `default:"1" placeholder:"UNITS" help:"Number of units. The order gets all of them or none. Default ${default}."`
	Buyer       string `default:"buyer" placeholder:"NAME" help:"Name of the buyer. Default ${default}."`
	Key         string `placeholder:"TEXT" help:"Idempotency key. The same key returns the same order. Default: a new one."`
	answerFlags `embed:""`
}

// Run places an order, waits for the decision, and prints the commands to pay and to cancel.
func (c *buyCommand) Run(ctx context.Context, s streams) error {
	server := c.as(c.Buyer, false)
	c.Key = cmp.Or(c.Key, rand.Text())
	o, err := server.PlaceOrder(ctx, c.SKU, c.Quantity, c.Key)
	switch of := api.As(err); {
	case server.Fault != nil || of.Unsent:
		return err
	case err != nil && (of.Status == 0 || of.Status >= 500):
		return fmt.Errorf("buy %d of %s: %w (the outcome is unknown: repeat the command with --key %s)", c.Quantity, c.SKU, err, c.Key)
	case err != nil:
		return fmt.Errorf("buy %d of %s: %w", c.Quantity, c.SKU, err)
	}
	if err := c.printOrder(s, server, o, nil); err != nil || c.JSON || o.Status != "pending_payment" {
		return err
	}
	as := o.ID + " --buyer " + o.Buyer + targetFlag(c.Target)
	_, err = fmt.Fprintf(s.out, "\nTo pay:     flashsale order pay %s --ref REFERENCE\nTo cancel:  flashsale order cancel %s\n", as, as)
	return err
}
