package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/orders"
	"flashsale/orders/httpapi"
)

const requestID = "X-Request-Id" // header

// Handlers pass these values to each other as path parameters. Context.Set would
// allocate a map, which takes 4 % of the time of a refusal. If a parameter is added
// twice, the first value counts.
const (
	buyerParam = "flashsale/buyer"
	scopeParam = "flashsale/scope"
	codeParam  = "flashsale/code"
)

// instance and sequence form unique request ids, which are cheaper than UUIDs.
var (
	instance = uuid.NewString()[:8] + "-"
	sequence atomic.Uint64
)

// Header values that all responses share. They are not copied, because refusals are the hot path.
var noStore, noSniff = []string{"no-store"}, []string{"nosniff"}

// identify sets the request id and the default headers. It takes the caller's id if that is
// valid as a buyer's name, and therefore safe in log lines and headers. Otherwise it creates a
// new id. Public responses replace Cache-Control.
func (s *Server) identify(c *gin.Context) {
	id := c.GetHeader(requestID)
	if !orders.IsBuyer(id) {
		id = string(strconv.AppendUint([]byte(instance), sequence.Add(1), 36))
	}
	header := c.Writer.Header()
	header.Set(requestID, id)
	header["Cache-Control"], header["X-Content-Type-Options"] = noStore, noSniff
}

// observe counts the request by its outcome, and logs it if AccessLog is set.
func (s *Server) observe(c *gin.Context) {
	start := time.Now()
	c.Next()
	took, status := time.Since(start), c.Writer.Status()
	if c.Param(codeParam) == codeGone {
		status = statusGone
	}
	s.metrics.request(c.FullPath(), c.Request.Method, status, c.Param(codeParam), took)
	if c.FullPath() == "/v1/orders" && c.Request.Method == http.MethodPost {
		s.cfg.Live.CountResponse(c.Param(httpapi.SKUParam), status, took)
	}
	if s.cfg.AccessLog {
		s.cfg.Log.Info("request",
			"request_id", c.Writer.Header().Get(requestID), "method", c.Request.Method, "path", c.Request.URL.Path,
			"status", status, "code", c.Param(codeParam), "took", took, "ip", c.ClientIP())
	}
}

// rescue recovers from a panic, logs its stack, and answers with 500.
func (s *Server) rescue(c *gin.Context) {
	defer func() {
		if r := recover(); r != nil {
			s.cfg.Log.Error("panic in a request: the client received 500", "request_id", c.Writer.Header().Get(requestID), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			if !c.Writer.Written() {
				s.fail(c, errUnexpected)
			}
		}
	}()
	c.Next()
}

// maxRequestTime bounds a request, so that a store that hangs does not hold its callers.
const maxRequestTime = 10 * time.Second

// bounded sets a timeout of maxRequestTime. A request that exceeds it is answered 503.
func (s *Server) bounded(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), maxRequestTime)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// authenticate verifies the token and stores its buyer and scope for the handlers.
func (s *Server) authenticate(c *gin.Context) {
	who, err := s.caller(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.AddParam(buyerParam, who.Buyer)
	c.AddParam(scopeParam, who.Scope)
}

// caller returns the identity of the request's token. Errors wrap auth.ErrUnauthorized.
func (s *Server) caller(c *gin.Context) (auth.Identity, error) {
	who, err := s.cfg.Verifier.FromHeader(c.GetHeader("Authorization"))
	// Two nodes with different secrets reject each other's tokens, which is hard to find.
	if errors.Is(err, auth.ErrSignature) && due(&s.warned, warnEvery) {
		s.cfg.Log.Warn("token rejected: signed with another secret: check that all nodes have the same --secret (logged once a minute)",
			"request_id", c.Writer.Header().Get(requestID), "ip", c.ClientIP())
	}
	return who, err
}

// warnEvery is the interval between warnings about signatures. Without it, any client
// could fill the log with forged tokens.
const warnEvery = time.Minute

// due reports whether the last log message is at least every ago. If so, it sets last.
func due(last *atomic.Int64, every time.Duration) bool {
	now, then := time.Now().UnixNano(), last.Load()
	return now-then >= int64(every) && last.CompareAndSwap(then, now)
}

// mustHave answers 403 if the token has none of the scopes.
func (s *Server) mustHave(scopes ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if who := (auth.Identity{Scope: c.Param(scopeParam)}); !slices.ContainsFunc(scopes, who.Has) {
			s.fail(c, errForbidden)
		}
	}
}

// prefixText matches a path prefix that is safe in a Location. A value such as //host names
// another host.
var prefixText = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// prefix returns the path under which a trusted proxy serves this server, or "".
func (s *Server) prefix(c *gin.Context) string {
	prefix := strings.TrimSuffix(c.GetHeader("X-Forwarded-Prefix"), "/")
	if c.ClientIP() == c.RemoteIP() || !prefixText.MatchString(prefix) { // a trusted proxy sends X-Forwarded-For, too
		return ""
	}
	return prefix
}

// buyer returns the buyer that authenticate has stored.
func buyer(c *gin.Context) string { return c.Param(buyerParam) }

// trace creates a span for the request. If the caller sends a traceparent header (W3C
// Trace Context), the span belongs to the caller's trace. A request that is not sampled
// costs only the sampling decision.
func (s *Server) trace(c *gin.Context) {
	r := c.Request
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.cfg.Tracer.Start(ctx, r.Method+" "+c.FullPath(), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return
	}
	defer span.End()
	c.Request = r.WithContext(ctx)
	c.Next()
	status := c.Writer.Status()
	span.SetAttributes(
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", c.FullPath()),
		attribute.String("url.path", r.URL.Path),
		attribute.Int("http.response.status_code", status),
		attribute.String("flashsale.request_id", c.Writer.Header().Get(requestID)),
	)
	code := c.Param(codeParam)
	if code != "" {
		span.SetAttributes(attribute.String("flashsale.code", code))
	}
	_, created, _ := strings.Cut(c.Writer.Header().Get("Location"), "/v1/orders/")
	created, _, _ = strings.Cut(created, "?")
	if order := cmp.Or(c.Param("id"), created); order != "" {
		span.SetAttributes(attribute.String("flashsale.order", order))
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, code)
	}
}
