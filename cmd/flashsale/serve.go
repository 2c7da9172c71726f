package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"flashsale/cmd/flashsale/internal/app"
	"flashsale/cmd/flashsale/internal/traces"
	"flashsale/loadtest/servers"
	"flashsale/ratelimit"
)

// limitFlags are the limiter's.
type limitFlags struct {
	LimitBuyer ratelimit.Limit `default:"5/s:10" placeholder:"RATE:BURST" help:"Orders a buyer may place: tokens per ms, s, m or h, and the burst. off for none. Default ${default}."`
	LimitIP    ratelimit.Limit `name:"limit-ip" default:"50/s:100" placeholder:"RATE:BURST" help:"Requests an address may make (IPv6: a /64). off for none. Default ${default}."`
	LimitSKU   ratelimit.Limit `name:"limit-sku" default:"off" placeholder:"RATE:BURST" help:"Orders that may be placed for one SKU. Default ${default}."`

	LimitAway   awayPolicies `default:"place=local,pay=open,read=local" placeholder:"ROUTE=POLICY,..." help:"What becomes of requests while Redis doesn't answer, for the routes place, pay (and cancel) and read: open lets them pass, closed answers 503, local has each node count by itself. Default ${default}."`
	LimitShadow []string     `placeholder:"ROUTE" help:"Routes on which nobody is refused, and /metrics counts who would be: to try out limits. Default: none."`
}

// into is the limiter's part of a node's config.
func (f *limitFlags) into(c *app.Config) {
	c.LimitBuyer, c.LimitIP, c.LimitSKU = f.LimitBuyer, f.LimitIP, f.LimitSKU
	c.LimitAway, c.LimitShadow = f.LimitAway, f.LimitShadow
}

// awayPolicies are what becomes of a route's requests while Redis is away.
type awayPolicies map[string]ratelimit.Policy

// UnmarshalText reads ROUTE=POLICY,...
func (a *awayPolicies) UnmarshalText(text []byte) error {
	*a = awayPolicies{}
	for part := range strings.SplitSeq(string(text), ",") {
		route, name, _ := strings.Cut(part, "=")
		var policy ratelimit.Policy
		if err := policy.UnmarshalText([]byte(name)); err != nil {
			return fmt.Errorf("%q is not ROUTE=POLICY: %w", part, err)
		}
		(*a)[route] = policy
	}
	return nil
}

// logFlags say what is logged, on stderr.
type logFlags struct {
	LogLevel  slog.Level `default:"INFO" help:"DEBUG, INFO, WARN or ERROR. Default ${default}."`
	AccessLog bool       `help:"Log every request, not only those that failed. Costs throughput."`
}

type serveCommand struct {
	Addr        string `default:":8080" placeholder:"HOST:PORT" help:"Address to listen on. Default ${default}."`
	MetricsAddr string `placeholder:"HOST:PORT" help:"Address for /metrics and pprof, apart from the API. Default: /metrics on --addr, no pprof."`
	Redis       string `placeholder:"URL" secret:"url" help:"Redis, such as redis://localhost:6379/0; several hosts with commas between them for a cluster, or redis+sentinel://host:26379,host:26379/master/0. With no --mysql either: an embedded one, gone when the program ends."`
	MySQL       string `name:"mysql" placeholder:"DSN" secret:"url" help:"MySQL or what speaks its protocol, such as user:password@tcp(localhost:3306)/flashsale."`
	Secret      string `placeholder:"TEXT" secret:"all" help:"Signs the tokens, HS256: 32 bytes or more, the same on all nodes."`
	Node        string `placeholder:"NAME" help:"Name of this node, unlike all others'. Default: a random one."`
	Demo        *bool  `negatable:"" help:"Give a token to whoever asks, an operator's too, and put something on sale, for the page at / to be tried out. Default: with embedded stores only."`
	Strategy    string `default:"lua" help:"How stock is guarded: lua, lock-per-order (right, and slow), or one of the broken ones get-decr, decr-leak, no-limit, to see what they do. Default ${default}."`

	Lock        string   `default:"redis" help:"What keeps the lock of a sale's keeper: redis (that of --redis), redlock, zookeeper or mysql (that of --mysql; a connection per sale). Default ${default}." group:"Locks"`
	LockServers []string `placeholder:"SERVER" secret:"url" help:"For redlock the URLs of three independent Redis masters or more, an odd number; for zookeeper host:port of its servers." group:"Locks"`

	limitFlags     `embed:"" group:"Limits"`
	TrustedProxies []string `placeholder:"CIDR" help:"Whose X-Forwarded-For tells the caller's address. Default: nobody's." group:"Limits"`
	MaxQuantity    int64    `default:"10" placeholder:"UNITS" help:"Most units of one order. Default ${default}." group:"Limits"`
	QueueBound     int      `default:"20000" placeholder:"ORDERS" help:"Orders of one SKU that may wait for the database, before 503. Default ${default}." group:"Limits"`

	Lease time.Duration `default:"5s" help:"A dead node's sales are taken over within it. Default ${default}." group:"Times"`
	Wait  time.Duration `default:"2s" help:"How long a buyer waits for the order to be durable, before 202. Default ${default}." group:"Times"`
	Drain time.Duration `default:"15s" help:"How long a stopping node finishes what it accepted. Default ${default}." group:"Times"`

	ReconcileEvery      time.Duration `default:"1s" help:"How often the units of a sale in use are compared between Redis and MySQL. Default ${default}." group:"Times"`
	ReconcileHoldsEvery time.Duration `default:"30s" help:"How often a sale is compared order by order; one at rest ten times seldomer. Default ${default}." group:"Times"`

	DirectAfter time.Duration `default:"3s" help:"How long no node must have reached Redis before orders go straight to MySQL, and how long it must be back before they no longer do. Default ${default}." group:"Times"`
	DirectLine  int           `default:"256" placeholder:"ORDERS" help:"Orders that one node may carry straight to MySQL at once, before 503. Default ${default}." group:"Limits"`

	ClockOff  time.Duration `hidden:"" help:"How wrong this node's clock is, for drills."`
	NoMetrics bool          `hidden:"" help:"Count nothing, for the benchmark of what counting costs."`

	logFlags `embed:"" group:"Logs"`
}

// Help shows what to try.
func (serveCommand) Help() string {
	return `Without --redis and --mysql it serves on embedded stores, to try out: everything is lost when it ends.
On your own stores, with any number of nodes, each with the same secret:

  export FLASHSALE_SECRET=$(openssl rand -base64 48)
  flashsale serve --redis redis://localhost:6379/0 \
      --mysql 'flashsale:password@tcp(localhost:3306)/flashsale'`
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
	if strings.Contains(c.Secret, exampleSecret) {
		of = append(of, "--secret")
	}
	if strings.Contains(c.Redis, examplePassword) {
		of = append(of, "--redis")
	}
	if strings.Contains(c.MySQL, examplePassword) {
		of = append(of, "--mysql")
	}
	if len(of) == 0 {
		return nil
	}
	return fmt.Errorf("%s: that is the example that everybody can read in docker-compose.yml: set your own, as .env.example says, or try it out with --demo (FLASHSALE_DEMO=true)",
		strings.Join(of, ", "))
}

// gcPercent lets garbage grow to four times what is live, which is little: a
// node's state is in its stores. It is worth 5 to 7 % of refusals.
const gcPercent = 400

// Run serves until it is told to stop.
func (c *serveCommand) Run(ctx context.Context, k *kong.Context, s streams) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: c.LogLevel}))
	cfg := app.Config{
		Addr: c.Addr, MetricsAddr: c.MetricsAddr, Redis: c.Redis, SQL: c.MySQL, Secret: c.Secret, Node: c.Node,
		TrustedProxies: c.TrustedProxies,
		MaxQuantity:    c.MaxQuantity, QueueBound: c.QueueBound, Lease: c.Lease, Wait: c.Wait, Drain: c.Drain,
		ReconcileEvery: c.ReconcileEvery, ReconcileHoldsEvery: c.ReconcileHoldsEvery,
		DirectAfter: c.DirectAfter, DirectLine: c.DirectLine,
		Lock: c.Lock, LockServers: c.LockServers,
		Demo:     c.Demo != nil && *c.Demo,
		Strategy: c.Strategy, AccessLog: c.AccessLog, ClockOff: c.ClockOff, NoMetrics: c.NoMetrics, Log: log,
	}
	c.into(&cfg)
	if cfg.Node == "" {
		cfg.Node = uuid.NewString()
	}
	switch {
	case c.Redis == "" && c.MySQL == "":
		stores, err := servers.Embedded(ctx)
		if err != nil {
			return fmt.Errorf("start the embedded stores: %w", err)
		}
		defer func() { _ = stores.Close() }()
		cfg.Redis, cfg.SQL = stores.RedisURL, stores.SQL
		if cfg.Secret == "" {
			cfg.Secret = trialSecret
		}
		cfg.Demo = c.Demo == nil || *c.Demo
		log.Warn("EMBEDDED STORES: for trying out. Everything is lost when this program ends. --redis and --mysql choose real ones.")
	case c.Redis == "" || c.MySQL == "":
		return errors.New("give both --redis and --mysql, or neither for the embedded stores")
	case c.Secret == trialSecret:
		return errors.New("secret: this one is printed in the source; set --secret or FLASHSALE_SECRET to 32 bytes or more of your own")
	case !cfg.Demo:
		if err := c.checkExamples(); err != nil {
			return err
		}
	}
	if cfg.Demo {
		log.Warn("DEMO: whoever asks gets a token, an operator's too. --no-demo turns it off.")
	}
	exporter, err := traces.New(ctx, cfg.Node, os.Getenv, log)
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
	log.Info(version())
	log.Info("settings", settings(k)...)
	return node.Run(ctx)
}
