// Package app is one node of the program, put together: stores, gate, limiter,
// orders and HTTP. Commands and tests start the same thing.
package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/cmd/flashsale/internal/web"
	"flashsale/inventory/broken"
	"flashsale/orders"
	"flashsale/ratelimit"
)

// Config of an App.
type Config struct {
	Addr        string // to listen on, host:port; port 0 for any
	MetricsAddr string // of /metrics and pprof; "" serves /metrics on Addr, and no pprof
	Redis       string // URL
	SQL         string // "sqlite:FILE" or a MySQL DSN
	Secret      string // signs tokens, 32 bytes or more
	Node        string // name of this process; "" for a random one

	LimitBuyer, LimitIP, LimitSKU ratelimit.Limit
	LimitAway                     map[string]ratelimit.Policy // by route, while Redis doesn't answer; defaultAway for those not named
	LimitShadow                   []string                    // routes whose limits refuse nobody
	TrustedProxies                []string

	Lease       time.Duration // a dead node's SKUs are taken over within it
	Wait        time.Duration // for an order to be durable, before 202
	QueueBound  int           // orders per SKU that may wait for the database
	MaxQuantity int64         // units per request
	Drain       time.Duration // how long a stopping node finishes what it accepted

	ReconcileEvery      time.Duration // the units of a sale in use, between the stores
	ReconcileHoldsEvery time.Duration // every sale, order by order

	DirectAfter time.Duration // Redis must be away for so long before orders go past it
	DirectLine  int           // buyers who may do so at once

	Lock        string   // what keeps the locks: "redis", "redlock", "zookeeper" or "mysql"
	LockServers []string // of redlock: URLs, of zookeeper: host:port

	Strategy      string        // "lua", "lock-per-order", or one of inventory/broken
	SnapshotEvery time.Duration // of the live page, default 1 s
	Demo          bool          // whoever asks gets a token, and there is something on sale
	AccessLog     bool
	ClockOff      time.Duration // how wrong this node's clock is: for tests and drills
	NoMetrics     bool          // nothing is counted: to measure what that costs
	Log           *slog.Logger

	Traces     trace.TracerProvider   // of which requests' spans are made; nil for none
	Collectors []prometheus.Collector // further metrics, of who made the App
}

// The strategies that are right.
const (
	strategyLua      = "lua"
	strategyPerOrder = "lock-per-order" // the database alone, and much slower
)

// defaultAway keeps nobody from paying because Redis is away, and nodes from
// being flooded.
var defaultAway = map[string]ratelimit.Policy{
	web.RoutePlace: ratelimit.Local, web.RoutePay: ratelimit.Open, web.RouteRead: ratelimit.Local,
}

// rules are the limiter's on a route.
func (c Config) rules(route string) ratelimit.Rules {
	away, given := c.LimitAway[route]
	if !given {
		away = defaultAway[route]
	}
	return ratelimit.Rules{Route: route, WhenAway: away, Shadow: slices.Contains(c.LimitShadow, route)}
}

func (c Config) withDefaults() Config {
	if c.Strategy == "" {
		c.Strategy = strategyLua
	}
	if c.Lock == "" {
		c.Lock = lockRedis
	}
	if c.Drain <= 0 {
		c.Drain = 15 * time.Second
	}
	if c.Lease <= 0 {
		c.Lease = 5 * time.Second
	}
	if c.ReconcileEvery == 0 {
		c.ReconcileEvery = time.Second
	}
	if c.ReconcileHoldsEvery == 0 {
		c.ReconcileHoldsEvery = 30 * time.Second
	}
	if c.DirectAfter == 0 {
		c.DirectAfter = 3 * time.Second
	}
	if c.QueueBound <= 0 {
		c.QueueBound = 20_000
	}
	if c.DirectLine == 0 {
		c.DirectLine = 256
	}
	if c.Node == "" {
		c.Node = uuid.NewString()
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Validate names everything that is wrong, at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Redis == "" {
		errs = append(errs, errors.New("redis: no URL (such as redis://localhost:6379/0)"))
	} else if _, err := redisOptions(c.Redis); err != nil {
		errs = append(errs, err)
	}
	if c.SQL == "" {
		errs = append(errs, errors.New("mysql: no DSN (such as user:password@tcp(localhost:3306)/flashsale)"))
	}
	if _, err := auth.New([]byte(c.Secret), nil); err != nil {
		errs = append(errs, fmt.Errorf("secret: %w", err))
	}
	if strategies := strategies(); !slices.Contains(strategies, c.Strategy) {
		errs = append(errs, fmt.Errorf("strategy: %q is none of %s", c.Strategy, strings.Join(strategies, ", ")))
	}
	for _, route := range slices.Sorted(maps.Keys(c.LimitAway)) {
		errs = append(errs, knownRoute("limit-away", route))
	}
	for _, route := range c.LimitShadow {
		errs = append(errs, knownRoute("limit-shadow", route))
	}
	errs = append(errs, c.validateLock())
	if c.Lease < time.Second {
		errs = append(errs, fmt.Errorf("lease: %s is under a second", c.Lease))
	}
	// What is compared too often is compared at the buyers' cost.
	if c.ReconcileEvery < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("reconcile-every: %s is under 100ms", c.ReconcileEvery))
	}
	if c.ReconcileHoldsEvery < c.ReconcileEvery || c.ReconcileHoldsEvery < time.Second {
		errs = append(errs, fmt.Errorf("reconcile-holds-every: %s is under a second, or under reconcile-every", c.ReconcileHoldsEvery))
	}
	if c.DirectAfter < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("direct-after: %s is under 100ms", c.DirectAfter))
	}
	if c.DirectLine < 1 {
		errs = append(errs, fmt.Errorf("direct-line: %d is under 1", c.DirectLine))
	}
	return errors.Join(errs...)
}

func knownRoute(flag, route string) error {
	if _, known := defaultAway[route]; known {
		return nil
	}
	return fmt.Errorf("%s: %q is none of the routes %s", flag, route, strings.Join(slices.Sorted(maps.Keys(defaultAway)), ", "))
}

// strategies are the names of all ways to guard stock.
func strategies() []string {
	names := []string{strategyLua, strategyPerOrder}
	for _, s := range broken.Strategies {
		names = append(names, s.Name)
	}
	return names
}

var _ orders.Gate = (*broken.Variant)(nil)
