package web

import (
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
	LimitPay       *admission.Control // of RoutePay
	LimitRead      *admission.Control // of RouteRead
	LimitIP        limit.Limit        // on both
	TrustedProxies []string           // whose X-Forwarded-For counts: addresses or CIDRs
	Checks         []Check            // what /readyz asks
	Registry       *prometheus.Registry
	Metrics        bool // whether /metrics is served here
	Live           *live.Live
	Demo           bool         // whether whoever asks gets a token
	Crowd          Crowd        // of a demo
	PayScope       string       // what a token needs to pay, anybody's order then; "" for buyers who pay by themselves
	Tracer         trace.Tracer // nil for no traces
	Log            *slog.Logger
	AccessLog      bool // log every request, not only those that failed
}

// The routes that the limiter tells apart. An operator's calls are not limited.
const (
	RoutePlace = "place" // placing an order, which asks by itself
	RoutePay   = "pay"   // paying and cancelling
	RouteRead  = "read"  // everything else
)

// A Server is the router of a node.
type Server struct {
	cfg     Config
	engine  *gin.Engine
	metrics metrics
	missing coalesce.Fresh[[]Check] // what does not answer
	ready   atomic.Bool
	warned  atomic.Int64 // when the log last spoke of strangers' tokens
	noted   atomic.Int64 // when it last spoke of a store that failed
}

// New returns the router. It refuses /v1 until SetReady.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, engine: gin.New(), metrics: newMetrics(cfg.Registry)}
	s.missing = coalesce.Fresh[[]Check]{Age: checkAge, Make: s.ask}
	s.engine.HandleMethodNotAllowed = true
	s.engine.RedirectTrailingSlash = false // another path is another route, and unknown
	if err := s.engine.SetTrustedProxies(cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	// Not X-Real-Ip as well, which gin would believe: a proxy that sets the one
	// need not take away the other.
	s.engine.RemoteIPHeaders = []string{"X-Forwarded-For"}
	s.engine.Use(s.identify, s.observe, s.rescue)
	s.engine.NoRoute(s.handle(func(*gin.Context) error { return errNotFound }))
	s.engine.NoMethod(s.handle(func(*gin.Context) error { return errMethod }))
	s.routes()
	for path, page := range map[string]func(bool) ([]byte, string, error){"/": live.Page, "/ops": live.Operators} {
		html, policy, err := page(cfg.Demo)
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", path, err)
		}
		s.engine.GET(path, document(html, policy))
	}
	if err := s.describe(); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return s, nil
}

// routes is the whole of the API.
func (s *Server) routes() {
	h := httpapi.New(s.cfg.Service, buyer)

	s.engine.GET("/livez", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	s.engine.GET("/readyz", s.readyz)
	if s.cfg.Metrics {
		s.engine.GET("/metrics", gin.WrapH(s.MetricsHandler()))
	}

	v1 := s.engine.Group("/v1")
	if s.cfg.Tracer != nil {
		v1.Use(s.trace)
	}
	v1.Use(s.mustBeReady)
	bounded := s.bounded // all but the placing of an order, which has bounds of its own
	address := func(c *gin.Context) (int, []ratelimit.Bucket) {
		return 1, httplimit.Address(c.ClientIP(), s.cfg.LimitIP)
	}
	reads := ginlimit.Middleware(s.cfg.LimitRead, address, s.fail)
	pays := ginlimit.Middleware(s.cfg.LimitPay, address, s.fail)

	v1.GET("/sales", bounded, reads, forAll, s.handle(h.Sales))
	v1.GET("/sales/:sku", bounded, reads, forAll, s.handle(h.Sale))
	v1.GET("/live", reads, s.handle(s.watch)) // no bounds: it goes on until somebody ends it

	mine := v1.Group("/orders", s.authenticate)
	mine.POST("", s.handle(h.Place)) // asks the limiter itself, after what this node remembers
	mine.GET("", bounded, reads, s.handle(h.List))
	mine.GET("/:id", bounded, reads, s.handle(h.Get))
	if h.AnyBuyers = s.cfg.PayScope != ""; h.AnyBuyers { // who speaks for all payers has no limit
		mine.POST("/:id/pay", s.mustHave(s.cfg.PayScope), bounded, s.handle(h.Pay))
	} else {
		mine.POST("/:id/pay", bounded, pays, s.handle(h.Pay))
	}
	mine.POST("/:id/cancel", bounded, pays, s.handle(h.Cancel))

	if s.cfg.Demo {
		s.engine.POST("/demo/token", reads, s.handle(s.demoToken))
		crowd := s.engine.Group("/demo/crowd", s.authenticate, s.mustHave(auth.ScopeAdmin), bounded)
		crowd.POST("", s.handle(s.sendCrowd))
		crowd.DELETE("", s.handle(s.endCrowd))
	}

	admin := v1.Group("/admin", s.authenticate, s.mustHave(auth.ScopeAdmin), bounded)
	admin.PUT("/sales/:sku", s.handle(h.PutSale))
	admin.GET("/sales/:sku/audit", s.handle(h.Audit))
	admin.GET("/sales/:sku/orders", s.handle(h.Rows))
	admin.POST("/sales/:sku/rebuild", s.handle(h.Rebuild))
	admin.POST("/sales/:sku/close", s.handle(h.Close))
	admin.GET("/orders", s.handle(h.OrdersOfBuyer))
	admin.GET("/orders/:id", s.handle(h.AnyOrder))
	admin.GET("/refunds", s.handle(h.Refunds))
}

// forAll takes out what is one caller's: the answer is kept for others.
func forAll(c *gin.Context) {
	c.Writer.Header().Del("RateLimit")
	c.Writer.Header().Del("RateLimit-Policy")
}

// SetReady says whether this node takes requests: not while it starts, and no
// longer once it is about to stop.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.engine.ServeHTTP(w, r) }
