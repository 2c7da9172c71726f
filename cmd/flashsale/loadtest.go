package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest"
	"flashsale/loadtest/judge"
)

type loadtestCommand struct {
	Target string        `default:"http://${addr}" placeholder:"URL" help:"URL of the server ($$FLASHSALE_TARGET). The server must trust this machine's X-Forwarded-For (--trusted-proxies) or run with --limit-ip off. Default ${default}."`
	Secret string        `placeholder:"TEXT" help:"The server's secret ($$FLASHSALE_SECRET), to sign the buyers' tokens. Default: the secret of a server on embedded stores."`
	Life   time.Duration `name:"token-life" default:"${token_life}" help:"The server's --token-life, if that is shorter than the run. Default ${default}."`
	SKU    string        `name:"sku" placeholder:"SKU" help:"SKU of the sale to create. A sale that has this SKU already must not have orders. Default: a new SKU for each run."`

	Visitors bool `help:"Let other people order during the attack. Their orders are counted but not judged. Without --visitors, an order of another person is a violation, and the live page shows no button to buy."`

	Lacks     []string      `placeholder:"FEATURE" help:"Feature that the shop does not have: keys, limit, audit, counter, cancel, pay, cancel-or-pay or feed. Its promises are then not judged. Can be repeated. A shop can also answer GET /v1/about." group:"Other shops"`
	Control   string        `placeholder:"DIR" help:"Directory of the report of a run with --serial on the same shop, its control. The verdict says whether it passed." group:"Other shops"`
	Settle    time.Duration `default:"500ms" placeholder:"TIME" help:"A sale is at rest if nothing changes for this time. Default ${default}." group:"Other shops"`
	ProbeWait time.Duration `default:"5s" placeholder:"TIME" help:"Time limit until a cancelled unit is on sale again. Default ${default}." group:"Other shops"`

	attackFlags `embed:""`
}

// Help shows examples.
func (loadtestCommand) Help() string {
	return `Creates new sales and leaves all other sales alone. Examples:

  flashsale loadtest --stock 5000 --rate 3000
  flashsale loadtest --scenario sneaker-drop
  flashsale loadtest --target http://127.0.0.1:9000 --serial --report control
  flashsale loadtest --target http://127.0.0.1:9000 --control control

Ctrl-C ends the attack early. The orders up to then are judged.`
}

// Run attacks the server and judges what it sold.
func (c *loadtestCommand) Run(ctx context.Context, s streams) error {
	if c.Scenario == "list" {
		return loadtest.ListScenarios(s.out)
	}
	verifier, err := signer(c.Secret, c.Life)
	if err != nil {
		return err
	}
	cfg, err := c.config(s)
	if err != nil {
		return err
	}
	if c.SKU != "" && c.Scenario != "" {
		return errors.New("--sku: cannot be combined with --scenario, which names its own SKUs")
	}
	cfg.Target, cfg.SKU, cfg.Visitors = c.Target, c.SKU, c.Visitors
	cfg.Control, cfg.Settle, cfg.ProbeWait = c.Control, c.Settle, c.ProbeWait
	if cfg.Lacks, err = judge.ParseFeatures(c.Lacks...); err != nil {
		return fmt.Errorf("--lacks: %w", err)
	}
	if _, _, err := api.New(c.Target, "").Sales(ctx, false, ""); api.As(err).Unsent {
		return err
	}
	life := min(cfg.TokenLife(), cmp.Or(c.Life, auth.DefaultLife))
	cfg.Token = func(subject string, admin bool) (string, error) { return verifier.Sign(subject, admin, life) }
	reports, err := loadtest.RunAll(ctx, cfg)
	if err != nil {
		return err
	}
	return c.finish(s, reports)
}
