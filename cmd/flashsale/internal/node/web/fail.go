package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
	"flashsale/orders/httpapi"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
)

// rendered holds the JSON bodies of failures. They are encoded once, because refusals
// are the hot path of a sold-out sale.
var rendered = func() [][]byte {
	bodies := make([][]byte, len(failures))
	for i, f := range failures {
		bodies[i], _ = json.Marshal(newProblem(f.status, f.code, f.detail))
	}
	return bodies
}()

const problemType = "application/problem+json"

// handle converts a handler that returns an error to a gin handler. It refuses requests with a
// Content-Encoding.
func (s *Server) handle(h func(*gin.Context) error) gin.HandlerFunc {
	return s.place(h, func(*gin.Context) {})
}

// place is handle for placing an order. A malformed order has not reached the limiter, so it takes a
// token of its address here, and is answered 429 if there is none. Otherwise malformed orders, which
// cost more than refusals, would be free.
func (s *Server) place(h func(*gin.Context) error, limited gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		err := httpapi.CheckEncoding(c.Request.Header)
		if err == nil {
			err = h(c)
		}
		if _, malformed := errors.AsType[*orders.InvalidError](err); malformed || errors.Is(err, httpapi.ErrMediaType) {
			limited(c)
		}
		if err != nil && !c.IsAborted() {
			s.fail(c, err)
		}
	}
}

// fail answers with the problem for err. The response never contains the text of err.
func (s *Server) fail(c *gin.Context, err error) {
	c.Abort()
	if errors.Is(err, context.Canceled) && c.Request.Context().Err() != nil {
		// The client has probably gone away. Respond nevertheless, because a client that has
		// closed only its sending side still reads the response.
		c.AddParam(codeParam, codeGone) // the first code counts, so this overrides that of serviceUnavailable
		s.serviceUnavailable(c, unavailable)
		return
	}
	if invalid, ok := errors.AsType[*orders.InvalidError](err); ok {
		p := newProblem(http.StatusBadRequest, "invalid_request", "The request is malformed.")
		names := slices.Sorted(maps.Keys(invalid.Fields))
		for _, name := range names[:min(len(names), httpapi.MaxFaults)] {
			p.Errors = append(p.Errors, field{Field: name, Detail: invalid.Fields[name]})
		}
		s.write(c, p)
		return
	}
	if limited, ok := errors.AsType[*admission.LimitedError](err); ok {
		httplimit.SetHeaders(c.Writer.Header(), limited.Result)
		s.write(c, newProblem(http.StatusTooManyRequests, "rate_limited", "Too many requests. The header Retry-After contains the time to wait."))
		return
	}
	if below, ok := errors.AsType[*orders.BelowSoldError](err); ok {
		s.write(c, newProblem(http.StatusConflict, "below_sold", fmt.Sprintf("The total would be lower than the number of units sold, %d.", below.Sold)))
		return
	}
	if running, ok := errors.AsType[*CrowdRunningError](err); ok {
		detail := fmt.Sprintf("A demo crowd is already running: it buys from %s for another %.0f min.", running.SKU, max(1, math.Ceil(running.Left.Minutes())))
		s.write(c, newProblem(http.StatusConflict, "in_progress", detail))
		return
	}
	for i := range failures {
		f := &failures[i]
		if !errors.Is(err, f.err) {
			continue
		}
		c.AddParam(codeParam, f.code)
		switch f.status {
		case http.StatusUnauthorized:
			c.Header("WWW-Authenticate", "Bearer")
		case http.StatusServiceUnavailable:
			c.Header("Retry-After", "1")
		case http.StatusInternalServerError:
			s.note(c, err)
		}
		c.Data(f.status, problemType, rendered[i])
		return
	}
	s.note(c, err)
	s.serviceUnavailable(c, unavailable)
}

// Status and code, in logs and metrics only, of requests whose client has gone away.
const (
	statusGone = 499
	codeGone   = "gone"
)

// serviceUnavailable answers with 503.
func (s *Server) serviceUnavailable(c *gin.Context, detail string) {
	c.Header("Retry-After", "1")
	s.write(c, newProblem(http.StatusServiceUnavailable, "unavailable", detail))
}

func (s *Server) write(c *gin.Context, p problem) {
	c.AddParam(codeParam, p.Code)
	body, _ := json.Marshal(p)
	c.Data(p.Status, problemType, body)
}

// note logs a server error, at most once a second. While a store is down, every request
// fails.
func (s *Server) note(c *gin.Context, err error) {
	if due(&s.noted, time.Second) {
		s.cfg.Log.Warn("request failed: the client received 503 or 500 and may retry (logged at most once a second)", "request_id", c.Writer.Header().Get(requestID), "route", c.FullPath(), "error", err)
	}
}
