package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/prove/gallery"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest"
	"flashsale/loadtest/servers"
)

type demoCommand struct {
	Strategy string `default:"${strategy}" completion-predictor:"strategy" help:"Strategy of the server. lua is the one of this project; compare --list lists the others, such as lock-per-order (correct, but slow) and get-decr, decr-leak and no-limit (broken). The flags under Limits have an effect with lua only. Default ${default}."`
	Real     bool   `help:"Start a private redis-server and mariadbd or mysqld, which must be installed, and stop them afterwards."`

	attackFlags `embed:""`
	app.Limits  `embed:"" group:"Limits"`
}

// Help shows examples.
func (demoCommand) Help() string {
	return `Needs nothing but this program: Redis and SQL are embedded. Examples:

  flashsale demo --report out          then open out/report.html
  flashsale demo --strategy get-decr   a broken way to sell: the verdict finds the fault
  flashsale demo --scenario bots       a few buyers send most of the orders
  flashsale demo --real                on a private redis-server and mariadbd or mysqld`
}

// Run starts stores and a node, attacks a sale until it is sold out, and judges the result.
func (c *demoCommand) Run(ctx context.Context, s streams) error {
	if c.Scenario == "list" {
		return loadtest.ListScenarios(s.out)
	}
	cfg, err := c.config(s)
	if err := errors.Join(err, variants.CheckStrategy(c.Strategy), app.Config{Limits: c.Limits, Secret: rand.Text() + rand.Text()}.Check()); err != nil {
		return err
	}
	if v, _ := variants.Find(c.Strategy); v.OnPayment {
		cfg = cfg.ForPayment()
	}
	say := func(format string, args ...any) {
		if !c.Quiet {
			_, _ = fmt.Fprintf(s.err, format+"\n", args...)
		}
	}
	// Ctrl-C cancels ctx, which ends the attack. The stores and the node must keep
	// running until the verdict is complete.
	background := context.WithoutCancel(ctx)
	start, kind := servers.StartEmbedded, "embedded"
	if c.Real {
		start, kind = func(ctx context.Context) (*servers.Stores, error) { return servers.StartReal(ctx, servers.Config{}) }, "real"
	}
	stores, err := start(ctx)
	if err != nil {
		return fmt.Errorf("start %s stores: %w", kind, err)
	}
	defer func() { _ = stores.Close() }()
	say("stores: %s (%s)", kind, stores.Versions)

	node, err := c.open(background, stores, s, cfg.MaxQuantity)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(background)
	stopped := make(chan error, 1)
	go func() { stopped <- node.Run(serving) }()
	select {
	case <-node.Ready():
	case err := <-stopped:
		stop()
		return err
	}
	say("server: %s, strategy %s", node.URL(), c.Strategy)

	if cfg.InFlight == 0 {
		// Server and buyers share this machine. If it is too busy for the rate, the demo takes
		// longer. Without the limit, most orders would time out.
		cfg.InFlight, cfg.Paced = 512, true
	}
	cfg.Target, cfg.Token = node.URL(), node.Token
	cfg.Strategy, cfg.Stores, cfg.Versions = c.Strategy, kind, stores.Versions
	reports, err := loadtest.RunAll(ctx, cfg)
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	return c.finish(s, reports)
}

// A seller is a node under attack: an App, or a server of the gallery.
type seller interface {
	URL() string
	Token(subject string, admin bool) (string, error)
	Ready() <-chan struct{}
	Run(ctx context.Context) error
}

// open returns an App for the strategy lua, and otherwise a server of the gallery.
func (c *demoCommand) open(ctx context.Context, stores *servers.Stores, s streams, maxQuantity int) (seller, error) {
	const addr = "127.0.0.1:0"
	secret := rand.Text() + rand.Text()
	if c.Strategy != variants.Lua {
		return gallery.Open(ctx, c.Strategy, addr, stores.RedisURL, stores.SQL, secret)
	}
	return app.New(app.Config{
		Addr: addr, Redis: stores.RedisURL, SQL: stores.SQL, Secret: secret,
		TrustedProxies: []string{"127.0.0.1"}, // the attack sends an X-Forwarded-For for each buyer
		MaxQuantity:    max(app.UnitsPerOrder, int64(maxQuantity)),
		Limits:         c.Limits, Changes: true,
		Log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}
