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
	Strategy string `default:"${strategy}" completion-predictor:"strategy" help:"How to sell: lua is this project, others are listed by compare --list, such as lock-per-order (right, and slow), get-decr, decr-leak and no-limit (wrong). Limits are lua's only. Default ${default}."`
	Real     bool   `help:"Use a private redis-server and mariadbd or mysqld, found on this machine and stopped afterwards."`

	attackFlags `embed:""`
	app.Limits  `embed:"" group:"Limits"`
}

// Help shows what to try.
func (demoCommand) Help() string {
	return `Needs nothing but this program: Redis and SQL are embedded. For example:

  flashsale demo --report out          and open out/report.html
  flashsale demo --strategy get-decr   a way to sell that is wrong, and is caught
  flashsale demo --scenario bots       a few buyers send most of the orders
  flashsale demo --real                on a private redis-server and mariadbd or mysqld`
}

// Run starts stores and a node, sells a sale out under attack, and judges it.
func (c *demoCommand) Run(ctx context.Context, s streams) error {
	if c.Scenario == "list" {
		return loadtest.ListScenarios(s.out)
	}
	cfg, err := c.config(s)
	if err := errors.Join(err, variants.CheckStrategy(c.Strategy)); err != nil {
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
	// What was started is stopped in any case, also after Ctrl-C, which ends
	// the attack and still gets a verdict.
	background := context.WithoutCancel(ctx)
	start, kind := servers.Embedded, "embedded"
	if c.Real {
		start, kind = func(ctx context.Context) (*servers.Stores, error) { return servers.Real(ctx, servers.Options{}) }, "real"
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

	cfg.Target, cfg.Token = node.URL(), node.Token
	cfg.Strategy, cfg.Stores, cfg.Versions = c.Strategy, kind, stores.Versions
	reports, err := loadtest.RunAll(ctx, cfg)
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	return c.finish(s, reports)
}

// A seller is what is attacked.
type seller interface {
	URL() string
	Token(subject string, admin bool) (string, error)
	Ready() <-chan struct{}
	Run(ctx context.Context) error
}

// open makes a node of this project, or of the gallery's variant.
func (c *demoCommand) open(ctx context.Context, stores *servers.Stores, s streams, maxQuantity int) (seller, error) {
	const addr = "127.0.0.1:0"
	secret := rand.Text() + rand.Text()
	if c.Strategy != variants.Lua {
		return gallery.Open(ctx, c.Strategy, addr, stores.RedisURL, stores.SQL, secret)
	}
	return app.New(app.Config{
		Addr: addr, Redis: stores.RedisURL, SQL: stores.SQL, Secret: secret,
		TrustedProxies: []string{"127.0.0.1"}, // each buyer of the attack comes from an address of its own
		MaxQuantity:    max(app.UnitsPerOrder, int64(maxQuantity)),
		Limits:         c.Limits,
		Log:            slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}
