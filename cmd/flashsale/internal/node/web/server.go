package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/node/live"
	"flashsale/inventory/coalesce"
	"flashsale/orders/feed"
	"flashsale/orders/httpapi"
	"flashsale/orders/shop"
	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/ginlimit"
	"flashsale/ratelimit/httplimit"
	"flashsale/ratelimit/limit"
)

// Config of a Server. All but the limits and Tracer are required.
type Config struct {
	Service        *shop.Service
	Verifier       *auth.Verifier
	LimitPlace     *admission.Control // limiter of malformed orders on RoutePlace
	LimitPay       *admission.Control // limiter of RoutePay
	LimitRead      *admission.Control // limiter of RouteRead
	LimitIP        limit.Limit        // limit per address
	TrustedProxies []string           // addresses or CIDRs whose X-Forwarded-For is trusted
	Checks         []Check            // the dependencies that /readyz checks
	Registry       *prometheus.Registry
	Metrics        bool // serve /metrics
	Live           *live.Live
	Demo           bool         // give a token to every caller
	Crowd          Crowd        // used in demo mode only
	TraceURL       string       // address of an order's traces, see live.OperatorsPage
	Feed           *feed.Feed   // nil: no feed of changes
	PayScope       string       // scope that may pay every order; "": buyers pay their own orders
	Tracer         trace.Tracer // nil for no traces
	Log            *slog.Logger
	AccessLog      bool // log every request, not only failed ones

	// Degraded returns what is wrong although the node sells and all dependencies respond.
	Degraded func(context.Context) []string
}

// The routes with separate limits. Operators' requests are not limited.
const (
	RoutePlace = "place" // placing an order; the order service calls the limiter itself
	RoutePay   = "pay"   // paying and cancelling
	RouteRead  = "read"  // all other requests of buyers
)

// reading lists the methods of a route that reads. net/http omits the body of a response to HEAD.
var reading = []string{http.MethodGet, http.MethodHead}

// A Server is the HTTP handler of a node.
type Server struct {
	cfg     Config
	engine  *gin.Engine
	metrics metrics
	missing coalesce.Fresh[[]Check] // the dependencies that do not respond
	ready   atomic.Bool             // /readyz may answer 200
	started atomic.Bool             // /v1 accepts requests
	warned  atomic.Int64            // time of the last warning about a signature, Unix ns
	noted   atomic.Int64            // time of the last logged failure, Unix ns
}

// New returns a Server. It answers /v1 with 503 until SetReady(true).
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, engine: gin.New(), metrics: newMetrics(cfg.Registry)}
	s.missing = coalesce.Fresh[[]Check]{Age: checkAge, Make: s.ask}
	s.engine.HandleMethodNotAllowed = true
	s.engine.RedirectTrailingSlash = false // a path with a trailing slash is 404
	if err := s.engine.SetTrustedProxies(cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("parse --trusted-proxies: %w", err)
	}
	// By default gin also trusts X-Real-Ip. A proxy that sets X-Forwarded-For may pass
	// on an X-Real-Ip that the client has forged.
	s.engine.RemoteIPHeaders = []string{"X-Forwarded-For"}
	s.engine.Use(s.identify, s.observe, s.rescue)
	s.engine.NoRoute(s.handle(func(*gin.Context) error { return errNotFound }))
	s.engine.NoMethod(s.handle(func(*gin.Context) error { return errMethod }))
	s.routes()
	operators := func(demo bool) ([]byte, string, error) { return live.OperatorsPage(demo, cfg.TraceURL) }
	for path, page := range map[string]func(bool) ([]byte, string, error){"/": live.BuyersPage, "/ops": operators} {
		html, policy, err := page(cfg.Demo)
		if err != nil {
			return nil, fmt.Errorf("read the embedded page %s: %w", path, err)
		}
		s.engine.Match(reading, path, document(html, policy))
	}
	if err := s.describe(); err != nil {
		return nil, fmt.Errorf("describe the API from openapi.yaml: %w", err)
	}
	s.metrics.startAtZero(s.engine.Routes())
	return s, nil
}

func (s *Server) routes() {
	h := httpapi.New(s.cfg.Service, buyer)
	h.Prefix = s.prefix

	s.engine.Match(reading, "/livez", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	s.engine.Match(reading, "/readyz", s.readyz)
	if s.cfg.Metrics {
		s.engine.Match(reading, "/metrics", gin.WrapH(s.MetricsHandler()))
	}

	v1 := s.engine.Group("/v1")
	if s.cfg.Tracer != nil {
		v1.Use(s.trace)
	}
	v1.Use(s.mustBeStarted)
	bounded := s.bounded // not for placing an order, which has its own timeouts
	address := func(c *gin.Context) (int, []ratelimit.Bucket) {
		return 1, httplimit.AddressBuckets(c.ClientIP(), s.cfg.LimitIP)
	}
	malformed := ginlimit.Middleware(s.cfg.LimitPlace, address, s.fail)
	reads := ginlimit.Middleware(s.cfg.LimitRead, address, s.fail)
	pays := ginlimit.Middleware(s.cfg.LimitPay, address, s.fail)

	v1.Match(reading, "/sales", bounded, reads, forAll, s.handle(h.ListSales))
	v1.Match(reading, "/sales/:sku", bounded, reads, forAll, s.handle(h.GetSale))
	v1.Match(reading, "/live", reads, s.handle(s.watch)) // not bounded: a stream of events

	mine := v1.Group("/orders", s.authenticate)
	mine.POST("", s.place(h.PlaceOrder, malformed)) // calls the limiter itself, after the sold-out memory
	mine.Match(reading, "", bounded, reads, s.handle(h.ListOrders))
	mine.Match(reading, "/:id", bounded, reads, s.handle(h.GetOrder))
	if h.PayForAnyBuyer = s.cfg.PayScope != ""; h.PayForAnyBuyer { // the provider pays for all buyers, so its payments are not limited
		mine.POST("/:id/pay", s.mustHave(s.cfg.PayScope), bounded, s.handle(h.PayOrder))
	} else {
		mine.POST("/:id/pay", bounded, pays, s.handle(h.PayOrder))
	}
	mine.POST("/:id/cancel", bounded, pays, s.handle(h.CancelOrder))

	if s.cfg.Demo {
		s.engine.POST("/demo/token", reads, s.handle(s.demoToken))
		crowd := s.engine.Group("/demo/crowd", s.authenticate, s.mustHave(auth.ScopeAdmin), bounded)
		crowd.POST("", s.handle(s.sendCrowd))
		crowd.DELETE("", s.handle(s.endCrowd))
	}

	// Not bounded, because a reader may ask to wait for longer.
	v1.Match(reading, "/admin/changes", s.authenticate, s.mustHave(auth.ScopeChanges, auth.ScopeAdmin), s.handle(httpapi.ListChanges(s.cfg.Feed)))
	admin := v1.Group("/admin", s.authenticate, s.mustHave(auth.ScopeAdmin), bounded)
	admin.PUT("/sales/:sku", s.handle(h.PutSale))
	admin.Match(reading, "/sales/:sku/audit", s.handle(h.AuditSale))
	admin.Match(reading, "/sales/:sku/orders", s.handle(h.ListSaleOrders))
	admin.POST("/sales/:sku/rebuild", s.handle(h.RebuildSale))
	admin.POST("/sales/:sku/void", s.handle(h.VoidOrders))
	admin.POST("/sales/:sku/close", s.handle(h.EndSale))
	admin.Match(reading, "/sales", s.handle(h.ListAllSales))
	admin.Match(reading, "/orders", s.handle(h.ListBuyerOrders))
	admin.Match(reading, "/orders/:id", s.handle(h.GetAnyOrder))
	admin.Match(reading, "/refunds", s.handle(h.ListRefunds))
}

// forAll removes the caller's rate limit headers, because caches share the response.
func forAll(c *gin.Context) {
	c.Writer.Header().Del("RateLimit")
	c.Writer.Header().Del("RateLimit-Policy")
}

// SetReady sets whether /readyz may answer 200. From the first SetReady(true) on, the Server
// accepts requests to /v1, also while the node stops: a balancer needs time to notice that
// /readyz fails.
func (s *Server) SetReady(ready bool) {
	s.ready.Store(ready)
	if ready {
		s.started.Store(true)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.engine.ServeHTTP(w, r) }
