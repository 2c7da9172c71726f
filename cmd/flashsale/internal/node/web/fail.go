package web

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
)

// rendered are the problems of the table, written once: refusing is the hot
// path of a sold-out sale.
var rendered = func() [][]byte {
	bodies := make([][]byte, len(failures))
	for i, f := range failures {
		bodies[i], _ = json.Marshal(newProblem(f.status, f.code, f.detail))
	}
	return bodies
}()

const problemType = "application/problem+json"

// handle makes a gin handler of one that returns its error.
func (s *Server) handle(h func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := h(c); err != nil {
			s.fail(c, err)
		}
	}
}

// fail answers with the problem that err is. Nothing of err's own text leaves
// the process.
func (s *Server) fail(c *gin.Context, err error) {
	c.Abort()
	if errors.Is(err, context.Canceled) && c.Request.Context().Err() != nil {
		// As a rule nobody is there to read it. Who has only closed their own half
		// of the connection is.
		c.AddParam(codeParam, codeGone) // before the code of away: the first counts
		s.away(c, unavailable)
		return
	}
	if invalid, ok := errors.AsType[*orders.InvalidError](err); ok {
		p := newProblem(http.StatusBadRequest, "invalid_request", "The request is malformed.")
		for _, name := range slices.Sorted(maps.Keys(invalid.Fields)) {
			p.Errors = append(p.Errors, field{Field: name, Detail: invalid.Fields[name]})
		}
		s.write(c, p)
		return
	}
	if limited, ok := errors.AsType[*admission.LimitedError](err); ok {
		httplimit.SetHeaders(c.Writer.Header(), limited.Result)
		s.write(c, newProblem(http.StatusTooManyRequests, "rate_limited", "Too many requests. Retry-After says when to come back."))
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
	s.away(c, unavailable)
}

// What log and metrics, and nobody else, say of a caller who hung up.
const (
	statusGone = 499
	codeGone   = "gone"
)

// away is 503.
func (s *Server) away(c *gin.Context, detail string) {
	c.Header("Retry-After", "1")
	s.write(c, newProblem(http.StatusServiceUnavailable, "unavailable", detail))
}

func (s *Server) write(c *gin.Context, p problem) {
	c.AddParam(codeParam, p.Code)
	body, _ := json.Marshal(p)
	c.Data(p.Status, problemType, body)
}

// note logs an error that is the server's, with the request it belongs to: once
// a second at most, for when a store is away every request ends in one.
func (s *Server) note(c *gin.Context, err error) {
	if due(&s.noted, time.Second) {
		s.cfg.Log.Warn("request failed", "request_id", c.Writer.Header().Get(requestID), "route", c.FullPath(), "error", err)
	}
}
