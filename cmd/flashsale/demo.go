package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"flashsale/cmd/flashsale/internal/app"
	"flashsale/loadtest"
	"flashsale/loadtest/servers"
)

type demoCommand struct {
	Strategy string `default:"lua" help:"How stock is guarded: lua, lock-per-order (right, and slow), or one of the broken ones get-decr, decr-leak, no-limit. Default ${default}."`
	Real     bool   `help:"Use a private redis-server and mariadbd or mysqld, found on this machine and stopped afterwards."`

	attackFlags `embed:""`
	limitFlags  `embed:"" group:"Limits"`
}

// Help shows what to try.
func (demoCommand) Help() string {
	return `Needs nothing but this program: Redis and SQL are embedded. For example:

  flashsale demo --report out          and open out/report.html
  flashsale demo --strategy get-decr   a gate that is wrong, and is caught
  flashsale demo --scenario bots       a few buyers send most of the orders
  flashsale demo --real                on a private redis-server and mariadbd or mysqld`
}

// Run starts stores and a node, sells a sale out under attack, and judges it.
func (c *demoCommand) Run(ctx context.Context, s streams) error {
	if listed, err := c.listed(s); listed {
		return err
	}
	cfg, earlier, err := c.config(s)
	if err != nil {
		return err
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

	serve := app.Config{
		Addr: "127.0.0.1:0", Redis: stores.RedisURL, SQL: stores.SQL, Secret: rand.Text() + rand.Text(),
		TrustedProxies: []string{"127.0.0.1"}, // each buyer of the attack comes from an address of its own
		MaxQuantity:    int64(max(10, cfg.MaxQuantity)),
		Strategy:       c.Strategy,
		Log:            slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	c.into(&serve)
	node, err := app.New(serve)
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
	cfg.Strategy, cfg.Stores = c.Strategy, kind
	reports, err := loadtest.RunAll(ctx, cfg)
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	return c.finish(s, reports, earlier)
}
