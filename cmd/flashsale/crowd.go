package main

import (
	"context"
	"fmt"
	"time"

	"flashsale/loadtest/gentle"
)

type crowdCommand struct {
	SKU         string        `arg:"" optional:"" help:"The sale. Default: the newest that is open."`
	Rate        int           `default:"${crowd_rate}" placeholder:"PER-SECOND" help:"Orders per second, at most 1000. Default ${default}."`
	Duration    time.Duration `default:"${crowd_duration}" help:"How long buyers come, from the opening of the sale on. Default ${default}."`
	Seed        int64         `default:"1" placeholder:"NUMBER" help:"Seed of what they do. Default ${default}."`
	serverFlags `embed:""`
}

// Help says what the buyers do.
func (crowdCommand) Help() string {
	return `Each buyer orders one unit or two. Most pay within twenty seconds, some cancel, and some come back.
Nothing is judged: loadtest does that, and a sale that it judges gets no crowd. The crowd ends with
its sale, or at Ctrl-C.`
}

// Run sends the crowd.
func (c *crowdCommand) Run(ctx context.Context, s streams) error {
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
