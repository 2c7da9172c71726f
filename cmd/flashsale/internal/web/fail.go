package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sort"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
	"flashsale/ratelimit"
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
		c.Status(statusGone) // nobody is there to read it
		return
	}
	var invalid *orders.InvalidError
	var limited *ratelimit.LimitedError
	switch {
	case errors.As(err, &invalid):
		p := newProblem(http.StatusBadRequest, "invalid_request", "The request is malformed.")
		for name, what := range invalid.Fields {
			p.Errors = append(p.Errors, field{Field: name, Detail: what})
		}
		sort.Slice(p.Errors, func(i, j int) bool { return p.Errors[i].Field < p.Errors[j].Field })
		s.write(c, p)
		return
	case errors.As(err, &limited):
		ratelimit.SetHeaders(c.Writer.Header(), limited.Result)
		s.write(c, newProblem(http.StatusTooManyRequests, "rate_limited", "Too many requests. Retry-After says when to come back."))
		return
	}
	for i := range failures {
		f := &failures[i]
		if !errors.Is(err, f.err) {
			continue
		}
		c.Set(codeKey, f.code)
		if f.status == http.StatusServiceUnavailable {
			c.Header("Retry-After", "1")
		}
		if f.status == http.StatusInternalServerError {
			s.note(c, err)
		}
		c.Data(f.status, problemType, rendered[i])
		return
	}
	s.note(c, err)
	c.Header("Retry-After", "1")
	s.write(c, newProblem(http.StatusServiceUnavailable, "unavailable", unavailable))
}

// statusGone is what the log says of a caller who hung up.
const statusGone = 499

func (s *Server) write(c *gin.Context, p problem) {
	c.Set(codeKey, p.Code)
	body, _ := json.Marshal(p)
	c.Data(p.Status, problemType, body)
}

// note logs an error that is the server's, with the request it belongs to: once
// a second at most, for when a store is away every request ends in one.
func (s *Server) note(c *gin.Context, err error) {
	now, last := time.Now().UnixNano(), s.noted.Load()
	if now-last < int64(time.Second) || !s.noted.CompareAndSwap(last, now) {
		return
	}
	s.cfg.Log.Warn("request failed", "request_id", c.Writer.Header().Get(requestID), "route", c.FullPath(), "error", err)
}
