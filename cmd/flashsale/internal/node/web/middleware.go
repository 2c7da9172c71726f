package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
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

// Handlers leave these values for each other, as parameters of the path. With
// Context.Set gin would make a map for them, at 4 % of what a refusal costs. Of two
// values with the same name the first counts.
const (
	buyerParam = "flashsale/buyer"
	scopeParam = "flashsale/scope"
	codeParam  = "flashsale/code"
)

// instance and sequence make request ids: unique, and cheaper than a UUID each.
var (
	instance = uuid.NewString()[:8] + "-"
	sequence atomic.Uint64
)

// identify gives the request its id: the caller's where it is as short and plain as
// a buyer's name, and cannot break a log line or a header.
func (s *Server) identify(c *gin.Context) {
	id := c.GetHeader(requestID)
	if !orders.IsBuyer(id) {
		id = string(strconv.AppendUint([]byte(instance), sequence.Add(1), 36))
	}
	c.Header(requestID, id)
}

// observe counts and, where wanted, logs what became of the request.
func (s *Server) observe(c *gin.Context) {
	start := time.Now()
	c.Next()
	took, status := time.Since(start), c.Writer.Status()
	if c.Param(codeParam) == codeGone {
		status = statusGone
	}
	s.metrics.request(c.FullPath(), c.Request.Method, status, c.Param(codeParam), took)
	if c.FullPath() == "/v1/orders" && c.Request.Method == http.MethodPost {
		s.cfg.Live.Answered(c.Param(httpapi.SKUParam), status, took)
	}
	if s.cfg.AccessLog {
		s.cfg.Log.Info("request",
			"request_id", c.Writer.Header().Get(requestID), "method", c.Request.Method, "path", c.Request.URL.Path,
			"status", status, "code", c.Param(codeParam), "took", took, "ip", c.ClientIP())
	}
}

// rescue turns a panic into an answer and a log entry with its stack.
func (s *Server) rescue(c *gin.Context) {
	defer func() {
		if r := recover(); r != nil {
			s.cfg.Log.Error("panic", "request_id", c.Writer.Header().Get(requestID), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			if !c.Writer.Written() {
				s.fail(c, errUnexpected)
			}
		}
	}()
	c.Next()
}

// maxRequestTime is how long a request may take: a store that neither answers nor
// fails must not keep its callers.
const maxRequestTime = 10 * time.Second

// bounded ends the request's context after maxRequestTime, which is a 503.
func (s *Server) bounded(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), maxRequestTime)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// authenticate finds out who is calling.
func (s *Server) authenticate(c *gin.Context) {
	who, err := s.caller(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.AddParam(buyerParam, who.Buyer)
	c.AddParam(scopeParam, who.Scope)
}

// caller is who the request's token speaks for. Errors wrap auth.ErrUnauthorized.
func (s *Server) caller(c *gin.Context) (auth.Identity, error) {
	who, err := s.cfg.Verifier.FromHeader(c.GetHeader("Authorization"))
	// What two nodes with different secrets look like from inside.
	if errors.Is(err, auth.ErrSignature) && due(&s.warned, strangersEvery) {
		s.cfg.Log.Warn("token refused: it was signed with another secret. Do all nodes have the same --secret? (said once a minute)",
			"request_id", c.Writer.Header().Get(requestID), "ip", c.ClientIP())
	}
	return who, err
}

// strangersEvery bounds how often the log speaks of tokens that were signed by
// somebody else: anybody can send them.
const strangersEvery = time.Minute

// due says whether it is time to log something again that happens all the time.
func due(last *atomic.Int64, every time.Duration) bool {
	now, then := time.Now().UnixNano(), last.Load()
	return now-then >= int64(every) && last.CompareAndSwap(then, now)
}

// mustHave refuses whoever's token lacks the scope.
func (s *Server) mustHave(scope string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if who := (auth.Identity{Scope: c.Param(scopeParam)}); !who.Has(scope) {
			s.fail(c, errForbidden)
		}
	}
}

// buyer is who is calling, for the handlers.
func buyer(c *gin.Context) string { return c.Param(buyerParam) }

// trace makes a span of the request, as the next part of the caller's trace
// where it has one (the header traceparent, W3C Trace Context). A request that
// is not sampled costs the decision and no more.
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
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, code)
	}
}
