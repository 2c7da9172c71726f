// Package app assembles one node from the stores, the gate, the limiter, the order
// service and the HTTP server. Commands and tests start nodes with it.
package app

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/orders/feed/webhooks"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/limit"
)

// Config of an App. Each field with a help text is a flag of serve. A zero field means
// the default of the flag, except that a zero limit in Limits means no limit.
type Config struct {
	Addr        string `default:"${addr}" placeholder:"HOST:PORT" help:"Address to listen on; :8080 listens on all interfaces. Default ${default}."`
	MetricsAddr string `placeholder:"HOST:PORT" help:"Separate address for /metrics and pprof. Default: /metrics on --addr, no pprof."`
	Redis       string `placeholder:"URL" secret:"url" help:"URL of Redis, such as redis://localhost:6379/0; for a cluster, several hosts separated by commas; for Sentinel, redis+sentinel://host:26379,host:26379/master/0. Without --redis and --mysql, the node uses embedded stores, whose data is lost on exit."`
	SQL         string `name:"mysql" placeholder:"DSN" secret:"url" help:"Data source name of MySQL or a compatible database, such as user:password@tcp(localhost:3306)/flashsale."` // the form sqlite:FILE selects an embedded store
	Secret      string `placeholder:"TEXT" secret:"all" help:"Key that signs the tokens (HS256), 32 bytes or more, equal on all nodes. Default: a public key, for demos on embedded stores only."`
	Node        string `placeholder:"NAME" help:"Unique name of this node. A node does not start while another node with the same name runs. Default: a random name."`

	Namespace string `placeholder:"NAME" help:"First part of the names of all keys and channels in Redis, for installations that share a Redis. Must be the same on all nodes of an installation. Default: none."`

	PreviousSecret string        `placeholder:"TEXT" secret:"all" help:"Former --secret. Tokens signed with it are still accepted, so that --secret can be changed without an interruption." group:"Tokens"`
	TokenIssuer    string        `default:"${token_name}" placeholder:"NAME" help:"Required issuer (iss). Tokens without an issuer are accepted. Default ${default}." group:"Tokens"`
	TokenAudience  string        `default:"${token_name}" placeholder:"NAME" help:"Required audience (aud). Tokens without an audience are accepted. Default ${default}." group:"Tokens"`
	TokenLife      time.Duration `default:"${token_life}" help:"Longest lifetime of a token. Default ${default}." group:"Tokens"`
	PayScope       string        `placeholder:"SCOPE" help:"For production: only tokens with this scope may pay, for any buyer. The payment provider's callback uses such a token. Default: buyers report their own payments." group:"Tokens"`

	Changes bool `help:"Report the state of every order and sale at GET /v1/admin/changes. All nodes must have the same setting. Default: off, because numbering the changes costs the database about as much as selling does." group:"Changes"`

	Webhook map[string]string `placeholder:"NAME=URL" secret:"all" help:"Deliver the changes to this https URL, signed as Standard Webhooks prescribes. Repeat the flag for further URLs. All nodes should have the same. Needs --changes." group:"Changes"`

	TraceURL string `name:"trace-url" placeholder:"URL" help:"Address of an order's traces in your viewer, with {order} in place of the order's ID, which spans have as flashsale.order. The page of operators links orders there. Default: no links." group:"Traces"`

	Lock        string   `default:"redis" help:"Store of the keepers' locks: redis (--redis), redlock, zookeeper or mysql (--mysql; one connection per sale). Default ${default}." group:"Locks"`
	LockServers []string `placeholder:"SERVER" secret:"url" help:"For redlock, the URLs of an odd number of independent Redis masters, at least three. For zookeeper, host:port of each server." group:"Locks"`

	Limits         `embed:"" group:"Limits"`
	TrustedProxies []string `placeholder:"CIDR" help:"Proxies whose X-Forwarded-For is trusted. Default: none. A demo on embedded stores trusts this machine if --addr is a loopback address." group:"Limits"`
	MaxQuantity    int64    `default:"${units_per_order}" placeholder:"UNITS" help:"Maximum units per order. Default ${default}." group:"Limits"`
	OrdersPerBuyer int      `default:"1000" placeholder:"ORDERS" help:"Maximum orders per buyer and SKU, cancelled ones included. Default ${default}." group:"Limits"`
	QueueLimit     int      `default:"20000" placeholder:"ORDERS" help:"Maximum queued orders per SKU. Further orders are answered 503. Default ${default}." group:"Limits"`

	Lease time.Duration `default:"5s" help:"If a node dies, another node takes over its sales within this time. Default ${default}." group:"Times"`
	Wait  time.Duration `default:"2s" help:"Answer 202 if an order is not durable after this time. An operator's change of a sale waits as long for the gate, but at least 2s. Default ${default}." group:"Times"`
	Drain time.Duration `default:"15s" help:"Time that a stopping node has to finish accepted requests. Default ${default}." group:"Times"`

	DrainDelay time.Duration `default:"0s" help:"Time for which a stopping node still serves all requests while /readyz is 503, so that a balancer notices it. Default ${default}; 5s in the image." group:"Times"`

	ReconcileEvery      time.Duration `default:"1s" help:"Interval at which the sums of an active sale are compared between Redis and MySQL. Default ${default}." group:"Times"`
	ReconcileHoldsEvery time.Duration `default:"10m" help:"Interval at which a sale is compared order by order between Redis and MySQL. Default ${default}." group:"Times"`

	DirectAfter time.Duration `default:"3s" help:"Switch to direct mode after Redis has been unreachable for this time. Switch back after Redis has been reachable for this time. Default ${default}." group:"Times"`
	DirectMax   int           `default:"256" placeholder:"ORDERS" help:"Maximum orders per node that are in progress at once in direct mode. Further orders are answered 503. Default ${default}." group:"Limits"`

	ClockOff time.Duration `hidden:"" help:"Offset of this node's clock, for drills."`

	Demo          bool                   `kong:"-"` // give a token to every caller, and create a sale
	AccessLog     bool                   `kong:"-"`
	SnapshotEvery time.Duration          `kong:"-"` // interval of the live page's snapshots; default 1 s
	WatchLife     time.Duration          `kong:"-"` // longest life of a live page's stream; default 10 min
	Log           *slog.Logger           `kong:"-"`
	After         timer                  `kong:"-"` // waits for DrainDelay; default time.After
	Traces        trace.TracerProvider   `kong:"-"` // nil: no traces
	Collectors    []prometheus.Collector `kong:"-"` // registered with the App's metrics
}

// A timer returns a channel that receives a value after a duration.
type timer func(time.Duration) <-chan time.Time

// Limits is the configuration of the rate limiter.
type Limits struct {
	LimitBuyer limit.Limit `default:"5/s:10" placeholder:"RATE:BURST" help:"Rate at which a buyer may place, pay and cancel orders: requests per ms, s, m or h, and the burst. off: no limit. Default ${default}."`
	LimitIP    limit.Limit `name:"limit-ip" default:"50/s:100" placeholder:"RATE:BURST" help:"Request rate of an IPv4 address or an IPv6 /64 network. A /48 network has ten times this rate. off: no limit. Default ${default}."`
	LimitSKU   limit.Limit `name:"limit-sku" default:"off" placeholder:"RATE:BURST" help:"Rate of orders for one SKU. off: no limit. Default ${default}."`

	LimitWhenRedisDown Policies `default:"place=local,pay=open,read=local" placeholder:"ROUTE=POLICY,..." help:"Policy of the limiter on a route while Redis is down: open allows all requests, closed answers 503, local counts on each node separately. Routes: place, pay (with cancel), read. Default ${default}."`
	LimitShadow        []string `placeholder:"ROUTE" help:"Routes whose limits are counted in /metrics but not enforced. Default: none."`
}

// Policies maps routes to the limiter's policy while Redis is down. Other routes have
// the policy of defaultPolicies.
type Policies map[string]admission.Policy

// UnmarshalText parses ROUTE=POLICY,...
func (a *Policies) UnmarshalText(text []byte) error {
	*a = Policies{}
	for part := range strings.SplitSeq(string(text), ",") {
		route, name, _ := strings.Cut(part, "=")
		var policy admission.Policy
		if err := policy.UnmarshalText([]byte(name)); err != nil {
			return fmt.Errorf("%q is not ROUTE=POLICY: %w", part, err)
		}
		(*a)[route] = policy
	}
	return nil
}

// UnitsPerOrder is the default of MaxQuantity.
const UnitsPerOrder = 10

// Vars holds the defaults of a Config that other commands also use in their flags.
var Vars = kong.Vars{
	"addr": "127.0.0.1:8080", "units_per_order": strconv.Itoa(UnitsPerOrder),
	"token_name": auth.DefaultName, "token_life": fmt.Sprintf("%gh", auth.DefaultLife.Hours()),
}

// defaultPolicies never rejects a payment while Redis is down. On the other routes each
// node limits separately, which protects it from a flood of requests.
var defaultPolicies = map[string]admission.Policy{
	web.RoutePlace: admission.Local, web.RoutePay: admission.Open, web.RouteRead: admission.Local,
}

// rules returns the limiter's rules for a route.
func (c Config) rules(route string) admission.Rules {
	policy, given := c.LimitWhenRedisDown[route]
	if !given {
		policy = defaultPolicies[route]
	}
	return admission.Rules{Route: route, WhenAway: policy, Shadow: slices.Contains(c.LimitShadow, route)}
}

// isNamespace accepts no braces, which would move the keys of a sale to another slot of a
// cluster, and no colon, which ends a namespace.
var isNamespace = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`).MatchString

var isTraceURL = regexp.MustCompile(`^https?://.*\{order\}`).MatchString

// Prefix returns the first part of the names in Redis in a namespace.
func Prefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + ":"
}

// tokens returns the configuration of the verifier of tokens.
func (c Config) tokens(clock func() time.Time) auth.Config {
	return auth.Config{
		Secret: []byte(c.Secret), Previous: []byte(c.PreviousSecret), Issuer: c.TokenIssuer, Audience: c.TokenAudience,
		Life: c.TokenLife, Demo: c.Demo, Clock: clock,
	}
}

func (c Config) withDefaults() Config {
	limits := c.Limits
	c.QueueLimit, c.Lease, c.Drain = max(c.QueueLimit, 0), max(c.Lease, 0), max(c.Drain, 0)
	if err := kong.ApplyDefaults(&c, Vars); err != nil {
		panic(err) // a default in the struct tags is invalid
	}
	c.Limits = limits
	for _, l := range []*limit.Limit{&c.LimitBuyer, &c.LimitIP, &c.LimitSKU} {
		if *l == (limit.Limit{}) {
			*l = limit.Off
		}
	}
	c.Node = cmp.Or(c.Node, uuid.NewString())
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.After == nil {
		c.After = time.After
	}
	return c
}

// Check returns one error that names all invalid settings, as New does. It checks the settings of
// embedded stores if Redis and SQL are empty.
func (c Config) Check() error {
	if c.Redis == "" && c.SQL == "" {
		c.Redis, c.SQL = "redis://embedded", "sqlite:embedded"
	}
	return c.withDefaults().validate()
}

// validate returns one error that names all invalid settings.
func (c Config) validate() error {
	var f faults
	_, err := redisOptions(c.Redis)
	f.check(c.Redis != "", "--redis: no URL (such as redis://localhost:6379/0)")
	f.check(c.Redis == "" || err == nil, "%w", err)
	f.check(c.SQL != "", "--mysql: no DSN (such as user:password@tcp(localhost:3306)/flashsale)")
	f.check(c.Namespace == "" || isNamespace(c.Namespace), "--namespace: %q is not 1 to 32 characters of A-Z a-z 0-9 . _ -", c.Namespace)
	for _, flag := range [][2]string{{"--addr", c.Addr}, {"--metrics-addr", c.MetricsAddr}} {
		_, _, err = net.SplitHostPort(flag[1])
		f.check(flag[1] == "" || err == nil, "%s: %w (want HOST:PORT, such as :8080)", flag[0], err)
	}
	_, err = auth.New(c.tokens(nil))
	f.check(err == nil, "--secret: %w", err)
	f.check(c.TokenLife >= 0, "--token-life: %s is below 0", c.TokenLife)
	notScope := func(r rune) bool { return r <= ' ' || r > '~' } // RFC 6749, section 3.3
	f.check(!strings.ContainsFunc(c.PayScope, notScope), "--pay-scope: %q is not the name of one scope", c.PayScope)
	knownRoute := func(flag, route string) {
		_, known := defaultPolicies[route]
		f.check(known, "%s: unknown route %q, want one of %s", flag, route, strings.Join(slices.Sorted(maps.Keys(defaultPolicies)), ", "))
	}
	for _, route := range slices.Sorted(maps.Keys(c.LimitWhenRedisDown)) {
		knownRoute("--limit-when-redis-down", route)
	}
	for _, route := range c.LimitShadow {
		knownRoute("--limit-shadow", route)
	}
	f.check(c.TraceURL == "" || isTraceURL(c.TraceURL), "--trace-url: %q is not an http or https URL that contains {order}", c.TraceURL)
	err = gin.New().SetTrustedProxies(c.TrustedProxies)
	f.check(err == nil, "--trusted-proxies: %w", err)
	c.validateLock(&f)
	f.check(len(c.Webhook) == 0 || c.Changes, "--webhook: needs --changes")
	for name, url := range c.Webhook {
		err = webhooks.Check(name, url, c.Demo)
		f.check(err == nil, "--webhook: %w", err)
	}
	f.check(c.Lease >= time.Second, "--lease: %s is below 1s", c.Lease)
	// More frequent comparisons would slow down the orders.
	f.check(c.ReconcileEvery >= 100*time.Millisecond, "--reconcile-every: %s is below 100ms", c.ReconcileEvery)
	f.check(c.ReconcileHoldsEvery >= max(c.ReconcileEvery, time.Second),
		"--reconcile-holds-every: %s is below 1s or below --reconcile-every", c.ReconcileHoldsEvery)
	f.check(c.DirectAfter >= 100*time.Millisecond, "--direct-after: %s is below 100ms", c.DirectAfter)
	f.check(c.DirectMax >= 1, "--direct-max: %d is below 1", c.DirectMax)
	return errors.Join(f...)
}

type faults []error

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}
