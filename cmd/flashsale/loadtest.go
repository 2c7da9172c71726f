package main

import (
	"context"
	"errors"
	"time"

	"flashsale/loadtest"
)

type loadtestCommand struct {
	Target string `default:"http://${addr}" placeholder:"URL" help:"The server ($$FLASHSALE_TARGET). It must trust this machine's X-Forwarded-For (--trusted-proxies), or have --limit-ip off. Default ${default}."`
	Secret string `placeholder:"TEXT" help:"The server's secret ($$FLASHSALE_SECRET), to sign the buyers' tokens. Default: that of a server on embedded stores."`
	SKU    string `name:"sku" placeholder:"SKU" help:"The sale to create; must have no orders. Default: a new one for each run."`

	Visitors bool `help:"Let other people order, too. Their orders are counted and not judged. Without --visitors each such order is a violation, and the live page shows the sale without a button to buy."`

	attackFlags `embed:""`
}

// Help shows what to try.
func (loadtestCommand) Help() string {
	return `It opens sales of its own, and touches no other. For example:

  flashsale loadtest --stock 5000 --rate 3000
  flashsale loadtest --scenario sneaker-drop

Ctrl-C ends the attack, and what has happened by then is judged.`
}

// Run attacks and judges.
func (c *loadtestCommand) Run(ctx context.Context, s streams) error {
	if c.Scenario == "list" {
		return loadtest.ListScenarios(s.out)
	}
	verifier, err := signer(c.Secret, 0)
	if err != nil {
		return err
	}
	cfg, err := c.config(s)
	if err != nil {
		return err
	}
	if c.SKU != "" && c.Scenario != "" {
		return errors.New("--sku: a scenario's sales have SKUs of their own")
	}
	cfg.Target, cfg.SKU, cfg.Visitors = c.Target, c.SKU, c.Visitors
	cfg.Token = func(subject string, admin bool) (string, error) { return verifier.Sign(subject, admin, 6*time.Hour) }
	reports, err := loadtest.RunAll(ctx, cfg)
	if err != nil {
		return err
	}
	return c.finish(s, reports)
}
