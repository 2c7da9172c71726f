package main

import (
	"context"
	"fmt"
	"time"

	"flashsale/loadtest/gentle"
)

type crowdCommand struct {
	SKU         string        `arg:"" optional:"" help:"SKU of the sale. Default: the newest open sale."`
	Rate        int           `default:"${crowd_rate}" placeholder:"PER-SECOND" help:"Orders per second, at most 1000. Default ${default}."`
	Duration    time.Duration `default:"${crowd_duration}" help:"Time for which buyers arrive, counted from the opening of the sale. Default ${default}."`
	Seed        int64         `default:"1" placeholder:"NUMBER" help:"Seed of the buyers' behavior. Default ${default}."`
	serverFlags `embed:""`
}

// Help describes the buyers.
func (crowdCommand) Help() string {
	return `Each buyer orders one or two units. Most buyers pay within twenty seconds, some cancel, and some come
back. The result is not judged; use loadtest for that. crowd refuses a sale that loadtest judges. It ends
with the sale or on Ctrl-C.`
}

// Run sends the buyers and prints what they did.
func (c *crowdCommand) Run(ctx context.Context, s streams) error {
	if _, err := c.as("crowd", false).Orders(ctx); err != nil { // there is a server, and it accepts the secret
		return err
	}
	verifier, err := signer(c.Secret, 0)
	if err != nil {
		return err
	}
	turnout, err := gentle.Run(ctx, gentle.Config{
		Target: c.Target, SKU: c.SKU, Rate: c.Rate, Duration: c.Duration, Seed: c.Seed, Progress: s.err,
		Token: func(subject string, admin bool) (string, error) { return verifier.Sign(subject, admin, tokenTTL) },
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, turnout)
	return err
}
