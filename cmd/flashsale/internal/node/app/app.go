package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/node/live"
	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/inventory"
	"flashsale/inventory/coalesce"
	"flashsale/orders/controller"
	"flashsale/orders/feed"
	"flashsale/orders/feed/webhooks"
	"flashsale/orders/shop"
	"flashsale/orders/store"
	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
	"flashsale/ratelimit/limit"
)

// An App is one node of the service.
type App struct {
	cfg      Config
	listener net.Listener
	metrics  net.Listener // nil if the main listener serves /metrics
	rdb      redis.UniversalClient
	gate     *inventory.Gate
	store    *store.Store
	service  *shop.Service
	verifier *auth.Verifier
	web      *web.Server
	live     *live.Live
	crowd    *demoCrowd
	feed     *feed.Feed          // nil without Config.Changes
	webhooks *webhooks.Deliverer // nil without Config.Changes
	closing  []func()            // close the connections of the locks
	ready    chan struct{}

	rights        coalesce.Fresh[[]string] // commands that Redis refuses
	refusedBefore []string                 // the last result of rights; only askRights uses it
}

// New returns a node that listens but does not serve yet, so its URL is known before
// Run. New does not connect to a store. An error names all invalid settings.
func New(cfg Config) (_ *App, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &App{cfg: cfg, ready: make(chan struct{})}
	a.rights = coalesce.Fresh[[]string]{Age: rightsAge, Make: a.askRights}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.verifier, err = auth.New(cfg.tokens(a.clock)); err != nil {
		return nil, err
	}
	options, err := redisOptions(cfg.Redis)
	if err != nil {
		return nil, err
	}
	a.rdb = a.openRedis(options)
	if a.store, err = store.Open(cfg.SQL, store.Config{
		Connections: MySQLConnections, WaitTimeout: cfg.Lease, Node: cfg.Node, OrdersPerBuyer: cfg.OrdersPerBuyer,
		Stats: func() string { return a.live.Stats() },
	}); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := a.assemble(registry); err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	if a.listener, err = listen.Listen(context.Background(), "tcp", cfg.Addr); err != nil {
		return nil, fmt.Errorf("listen on %s: %w (choose another address with --addr)", cfg.Addr, err)
	}
	if cfg.MetricsAddr != "" {
		if a.metrics, err = listen.Listen(context.Background(), "tcp", cfg.MetricsAddr); err != nil {
			return nil, fmt.Errorf("listen on %s for metrics: %w (choose another address with --metrics-addr)", cfg.MetricsAddr, err)
		}
	}
	return a, nil
}

// assemble creates the gate, the limiter, the order service and the HTTP server.
func (a *App) assemble(registry *prometheus.Registry) (err error) {
	cfg := a.cfg
	m := newMetrics(registry)
	registry.MustRegister(cfg.Collectors...)
	onBatch, onCommit := m.batch, m.commit
	var t tracer
	if cfg.Traces != nil {
		t.Tracer = cfg.Traces.Tracer("flashsale")
		onBatch, onCommit = both(onBatch, t.batch), both(onCommit, t.commit)
	}
	a.gate = inventory.New(a.rdb, inventory.Config{Prefix: Prefix(cfg.Namespace), QueueLimit: cfg.QueueLimit, OnBatch: onBatch})
	control := admission.New(ratelimit.New(a.rdb, ratelimit.Config{Prefix: Prefix(cfg.Namespace) + ratelimit.DefaultPrefix}), m.decision)
	service := shop.Config{
		Store: a.store, Gate: inventory.KeeperGate{Gate: a.gate}, Redis: a.rdb, Prefix: Prefix(cfg.Namespace), Wait: cfg.Wait, MaxQuantity: cfg.MaxQuantity,
		Limiter: limits{control.With(cfg.rules(web.RoutePlace)), control.With(cfg.rules(web.RoutePay)), cfg.LimitBuyer, cfg.LimitIP, cfg.LimitSKU},
		Keeper: controller.KeeperConfig{
			Lease: cfg.Lease, ReconcileEvery: cfg.ReconcileEvery, ReconcileHoldsEvery: cfg.ReconcileHoldsEvery,
		},
		Direct: controller.DirectConfig{EnterAfter: cfg.DirectAfter, MaxOrders: cfg.DirectMax},
		Log:    cfg.Log, Clock: a.clock, OnCommit: onCommit,
	}
	if cfg.Traces != nil {
		service.Trace, service.Limiter = traceparent, tracedLimits{service.Limiter, t}
	}
	if service.Locks, err = a.locks(service.Keeper.LockLease()); err != nil {
		return err
	}
	a.service = shop.New(service)
	m.watch(registry, a.service, a.store, a.rdb, cfg.QueueLimit)
	if cfg.Changes {
		a.feed = feed.New(feed.Config{
			Store: a.store, Log: cfg.Log,
			Rush: func() bool { // while Redis is down, the queues stay as they are
				c := a.service.Controller()
				return !c.RedisDown() && c.Stats().LongestQueue > longQueue
			},
		})
		watchFeed(registry, a.feed)
		hooks := webhooks.Config{URLs: cfg.Webhook, Secrets: [][]byte{[]byte(cfg.Secret)}, Store: a.store, Read: a.feed.Read, Clock: a.clock, Log: cfg.Log}
		if cfg.PreviousSecret != "" {
			hooks.Secrets = append(hooks.Secrets, []byte(cfg.PreviousSecret))
		}
		a.webhooks = webhooks.New(hooks)
		watchWebhooks(registry, a.webhooks)
	}
	a.crowd = &demoCrowd{app: a}
	a.live = live.New(live.Config{
		Node: cfg.Node, Service: a.service, Store: a.store,
		Missing: func(ctx context.Context) []string { return a.web.MissingDependencies(ctx) },
		Every:   cfg.SnapshotEvery, Life: cfg.WatchLife, Feed: a.feed, Webhooks: a.webhooks, Crowd: a.crowd.Current,
	})
	a.web, err = web.New(web.Config{
		Service: a.service, Verifier: a.verifier, LimitIP: cfg.LimitIP,
		LimitPlace: control.With(cfg.rules(web.RoutePlace)), LimitPay: control.With(cfg.rules(web.RoutePay)), LimitRead: control.With(cfg.rules(web.RouteRead)),
		TrustedProxies: cfg.TrustedProxies, Registry: registry, Metrics: cfg.MetricsAddr == "",
		Live: a.live, Demo: cfg.Demo, Crowd: a.crowd, TraceURL: cfg.TraceURL, Feed: a.feed, PayScope: cfg.PayScope,
		Checks: []web.Check{
			{Name: "redis", Ask: func(ctx context.Context) error { return a.rdb.Ping(ctx).Err() }, SellsWithout: a.service.Controller().InDirectMode},
			{Name: "mysql", Ask: func(ctx context.Context) error {
				return errors.Join(a.store.Ping(ctx), a.service.Controller().CheckBeat(ctx))
			}},
		},
		Degraded: a.degraded,
		Tracer:   t.Tracer, Log: cfg.Log, AccessLog: cfg.AccessLog,
	})
	return err
}

// longQueue is the number of orders in the queue of a SKU above which no changes are numbered.
const longQueue = 2000

func both[T any](first, second func(T)) func(T) {
	return func(v T) { first(v); second(v) }
}

// limits implements shop.Limiter with one limiter call for all buckets. Placing, paying
// and cancelling take tokens from the same bucket of a buyer.
type limits struct {
	place, pay     *admission.Control
	buyer, ip, sku limit.Limit
}

func (l limits) Allow(ctx context.Context, buyer, ip, sku string) error {
	buyerBucket := ratelimit.Bucket{Name: "buyer", ID: buyer, Limit: l.buyer}
	if sku == "" { // pay or cancel: the route's middleware has already limited the address
		_, err := l.pay.Admit(ctx, 1, buyerBucket)
		return err
	}
	skuBucket := ratelimit.Bucket{Name: "sku", ID: sku, Limit: l.sku}
	buckets := slices.Concat([]ratelimit.Bucket{buyerBucket}, httplimit.AddressBuckets(ip, l.ip), []ratelimit.Bucket{skuBucket})
	_, err := l.place.Admit(ctx, 1, buckets...)
	return err
}

// clock returns the time of this node, with the offset that a drill has set.
func (a *App) clock() time.Time { return time.Now().Add(a.cfg.ClockOff) }

// URL returns the base URL of the node for clients on this machine.
func (a *App) URL() string {
	addr := a.listener.Addr().(*net.TCPAddr)
	if addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d", addr.Port)
	}
	return "http://" + addr.String()
}

// Ready returns a channel that is closed when the node accepts requests.
func (a *App) Ready() <-chan struct{} { return a.ready }

// Token returns a token for subject that this node accepts for an hour. If admin is
// true, the token has the scope admin.
func (a *App) Token(subject string, admin bool) (string, error) {
	return a.verifier.Sign(subject, admin, time.Hour)
}

func (a *App) close() {
	for _, l := range []net.Listener{a.listener, a.metrics} {
		if l != nil {
			_ = l.Close() // returns an error if the server has closed it already
		}
	}
	for _, end := range a.closing {
		end()
	}
	if a.gate != nil {
		ending, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = a.gate.Wait(ending) // calls in progress end after two seconds at most
	}
	if a.rdb != nil {
		_ = a.rdb.Close()
	}
	if a.store != nil {
		_ = a.store.Close()
	}
}

// server returns an http.Server with timeouts and limits against slow or hostile clients.
func (a *App) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

var errStopped = errors.New("the node was stopped before it was ready")
