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
	WithDemo   *bool      `name:"demo" negatable:"" help:"Demo mode: create a sale, and give every caller a token, on request an operator's. Default: on embedded stores only."`
	LogLevel   slog.Level `default:"INFO" help:"Lowest level of the log messages to print: DEBUG, INFO, WARN or ERROR. Default ${default}." group:"Logs"`
	LogFormat  string     `enum:"text,json" default:"text" help:"Format of the log: text, or json, with one object per line. Default ${default}." group:"Logs"`
	LogAll     bool       `name:"access-log" help:"Log every request, not only failed ones. This reduces throughput." group:"Logs"`
}

// Help explains embedded stores and shows an example.
func (serveCommand) Help() string {
	return `Without --redis and --mysql the node uses embedded stores, and all data is lost when it exits.
With your own stores you can run any number of nodes. All of them need the same secret:

  export FLASHSALE_SECRET=$(openssl rand -base64 48)
  flashsale serve --redis redis://localhost:6379/0 \
      --mysql 'flashsale:password@tcp(localhost:3306)/flashsale'

Each flag can be set by a variable: --limit-buyer by FLASHSALE_LIMIT_BUYER.`
}

// trialSecret signs the tokens of embedded stores, which lose all data on exit. The
// secret is public, so serve rejects it for real stores.
const trialSecret = "flashsale trial secret: embedded stores only"

// The example secrets of docker-compose.yml are public. Each contains one of these texts.
const (
	exampleSecret   = "EXAMPLE"
	examplePassword = ":example@"
)

// checkExamples returns an error if a flag still has an example secret of
// docker-compose.yml. Run does not call it in demo mode.
func (c *serveCommand) checkExamples() error {
	var flags []string
	if strings.Contains(c.Secret+c.PreviousSecret, exampleSecret) {
		flags = append(flags, "--secret")
	}
	if strings.Contains(c.Redis, examplePassword) {
		flags = append(flags, "--redis")
	}
	if strings.Contains(c.SQL, examplePassword) {
		flags = append(flags, "--mysql")
	}
	if len(flags) == 0 {
		return nil
	}
	return fmt.Errorf("%s: this is the public example of docker-compose.yml: set a secret or password of your own as .env.example describes, or use --demo (FLASHSALE_DEMO=true)",
		strings.Join(flags, ", "))
}

// gcPercent is the value of GOGC. The live heap of a node is small because its state
// is in its stores, so a high value costs little memory. A node answers 5 to 7 % more
// refusals per second with 400 than with 100, and another 2 % more with 800.
const gcPercent = 800

// Run serves until ctx is canceled by a signal. With --log-format json, the error that ends a node
// is in the log, too.
func (c *serveCommand) Run(ctx context.Context, k *kong.Context, s streams) error {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat != "json" {
		return c.serve(ctx, k, s, slog.New(slog.NewTextHandler(s.err, options)))
	}
	log := slog.New(slog.NewJSONHandler(s.err, options))
	if err := c.serve(ctx, k, s, log); err != nil {
		log.Error("node ends", "error", err)
		return exitCode(3)
	}
	return nil
}

func (c *serveCommand) serve(ctx context.Context, k *kong.Context, s streams, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	slog.SetDefault(log) // the store clients write to the default logger
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("OpenTelemetry failed: some traces may be missing", "error", err) }))
	cfg := c.Config
	cfg.AccessLog, cfg.Log = c.LogAll, log
	cfg.Demo = c.WithDemo != nil && *c.WithDemo
	cfg.Node = cmp.Or(cfg.Node, uuid.NewString()) // the trace exporter needs the name before app.New
	switch {
	case c.Redis == "" && c.SQL == "":
		cfg.Demo = c.WithDemo == nil || *c.WithDemo
		if cfg.Secret == "" && cfg.Demo {
			cfg.Secret = trialSecret
		}
		// On a loopback address, loadtest can then send an X-Forwarded-For for each buyer.
		if at, err := net.ResolveTCPAddr("tcp", cfg.Addr); cfg.Demo && err == nil && at.IP.IsLoopback() && len(cfg.TrustedProxies) == 0 {
			cfg.TrustedProxies = []string{"127.0.0.1", "::1"}
		}
		if err := cfg.Check(); err != nil { // fail before the stores start
			return err
		}
		stores, err := servers.StartEmbedded(ctx)
		if err != nil {
			return fmt.Errorf("start the embedded stores: %w", err)
		}
		defer func() { _ = stores.Close() }()
		cfg.Redis, cfg.SQL = stores.RedisURL, stores.SQL
		log.Warn("EMBEDDED STORES: all data is lost when this program exits. Use --redis and --mysql for real stores.")
	case c.Redis == "" || c.SQL == "":
		return errors.New("give both --redis and --mysql, or neither for the embedded stores")
	case c.Secret == trialSecret || c.PreviousSecret == trialSecret:
		return errors.New("--secret or --previous-secret is the public secret of embedded stores: set --secret or FLASHSALE_SECRET to 32 random bytes or more")
	case !cfg.Demo:
		if err := c.checkExamples(); err != nil {
			return err
		}
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
	if cfg.Demo {
		log.Warn("DEMO MODE: every caller can get a token of a buyer or of an operator. --no-demo turns demo mode off.")
	}
	c.WithDemo, c.TrustedProxies = &cfg.Demo, cfg.TrustedProxies // settings logs the flags of c
	log.Info(version())
	log.Info("settings", settings(k)...)
	s.welcome(node.URL(), cfg.Demo)
	return node.Run(ctx)
}

// welcome prints the addresses of the pages if the output is a terminal.
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
