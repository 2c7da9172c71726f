package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"golang.org/x/term"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/node/traces"
	"flashsale/loadtest/servers"
)

type serveCommand struct {
	app.Config `embed:""`
	WithDemo   *bool      `name:"demo" negatable:"" help:"Demo mode: give anybody a token, operators' included, and create a sale. Default: on embedded stores only."`
	LogLevel   slog.Level `default:"INFO" help:"DEBUG, INFO, WARN or ERROR. Default ${default}." group:"Logs"`
	LogAll     bool       `name:"access-log" help:"Log every request, not only failed ones. Costs throughput." group:"Logs"`
}

// Help shows what to try.
func (serveCommand) Help() string {
	return `Without --redis and --mysql it serves on embedded stores, to try out: everything is lost when it ends.
On your own stores, with any number of nodes, each with the same secret:

  export FLASHSALE_SECRET=$(openssl rand -base64 48)
  flashsale serve --redis redis://localhost:6379/0 \
      --mysql 'flashsale:password@tcp(localhost:3306)/flashsale'

Each flag can be set by a variable: --limit-buyer by FLASHSALE_LIMIT_BUYER.`
}

// trialSecret signs tokens on embedded stores, where nothing lasts. Everybody
// can read it here, so no real store is ever guarded by it.
const trialSecret = "flashsale trial secret: embedded stores only"

// Whoever has read docker-compose.yml knows its secrets: they contain these.
const (
	exampleSecret   = "EXAMPLE"
	examplePassword = ":example@"
)

// checkExamples refuses to guard anything with an example. A demo guards nothing.
func (c *serveCommand) checkExamples() error {
	var of []string
	if strings.Contains(c.Secret+c.PreviousSecret, exampleSecret) {
		of = append(of, "--secret")
	}
	if strings.Contains(c.Redis, examplePassword) {
		of = append(of, "--redis")
	}
	if strings.Contains(c.SQL, examplePassword) {
		of = append(of, "--mysql")
	}
	if len(of) == 0 {
		return nil
	}
	return fmt.Errorf("%s: that is the example that everybody can read in docker-compose.yml: set your own, as .env.example says, or try it out with --demo (FLASHSALE_DEMO=true)",
		strings.Join(of, ", "))
}

// gcPercent lets garbage grow to eight times what is live, which is little: a
// node's state is in its stores. Four times is worth 5 to 7 % of refusals, eight times 2 % more.
const gcPercent = 800

// Run serves until it is told to stop.
func (c *serveCommand) Run(ctx context.Context, k *kong.Context, s streams) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: c.LogLevel}))
	slog.SetDefault(log) // what the clients of the stores say goes there
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces not sent", "error", err) }))
	cfg := c.Config
	cfg.AccessLog, cfg.Log = c.LogAll, log
	cfg.Demo = c.WithDemo != nil && *c.WithDemo
	cfg.Node = cmp.Or(cfg.Node, uuid.NewString()) // the exporter of traces tells it, too
	switch {
	case c.Redis == "" && c.SQL == "":
		stores, err := servers.Embedded(ctx)
		if err != nil {
			return fmt.Errorf("start the embedded stores: %w", err)
		}
		defer func() { _ = stores.Close() }()
		cfg.Redis, cfg.SQL = stores.RedisURL, stores.SQL
		cfg.Demo = c.WithDemo == nil || *c.WithDemo
		if cfg.Secret == "" && cfg.Demo {
			cfg.Secret = trialSecret
		}
		// Where only this machine calls, it may be a load test of many buyers.
		if at, err := net.ResolveTCPAddr("tcp", cfg.Addr); cfg.Demo && err == nil && at.IP.IsLoopback() && len(cfg.TrustedProxies) == 0 {
			cfg.TrustedProxies = []string{"127.0.0.1", "::1"}
		}
		log.Warn("EMBEDDED STORES: for trying out. Everything is lost when this program ends. --redis and --mysql choose real ones.")
	case c.Redis == "" || c.SQL == "":
		return errors.New("give both --redis and --mysql, or neither for the embedded stores")
	case c.Secret == trialSecret || c.PreviousSecret == trialSecret:
		return errors.New("secret: this one is printed in the source; set --secret or FLASHSALE_SECRET to 32 bytes or more of your own")
	case !cfg.Demo:
		if err := c.checkExamples(); err != nil {
			return err
		}
	}
	if cfg.Demo {
		log.Warn("DEMO: whoever asks gets a token, an operator's too. --no-demo turns it off.")
	}
	exporter, err := traces.New(ctx, cfg.Node, os.Getenv)
	if err != nil {
		return err
	}
	if exporter != nil {
		defer exporter.Close()
		cfg.Traces, cfg.Collectors = exporter, append(cfg.Collectors, exporter.Metric())
	}
	node, err := app.New(cfg)
	if err != nil {
		return err
	}
	c.WithDemo, c.TrustedProxies = &cfg.Demo, cfg.TrustedProxies // what they came to, for the log
	log.Info(version())
	log.Info("settings", settings(k)...)
	s.welcome(node.URL(), cfg.Demo)
	return node.Run(ctx)
}

// welcome says on a terminal where to click, and elsewhere nothing.
func (s streams) welcome(url string, demo bool) {
	crowd := ""
	if demo {
		crowd = "Crowd      flashsale crowd" + targetFlag(url)
	}
	for _, w := range []io.Writer{s.err, s.out} {
		if f, isFile := w.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
			_, _ = fmt.Fprintf(w, "\n  Shop  %-30s Operators  %s/ops\n  API   %-30s %s\n\n", url+"/", url, url+"/docs", crowd)
			return
		}
	}
}
