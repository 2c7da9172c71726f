package web

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/ratelimit/httplimit"
)

// document serves a page that may do what its policy says and nothing else.
func document(html []byte, policy string) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Header("Content-Security-Policy", policy)
		c.Header("X-Content-Type-Options", "nosniff")
		c.Header("Referrer-Policy", "no-referrer")
		c.Header("Cache-Control", "no-cache") // a page of an older node knows an older API
		c.Data(http.StatusOK, "text/html; charset=utf-8", html)
	}
}

// writeTimeout is how long who watches may take to read one snapshot: instead of
// the server's, which is for answers that end.
const writeTimeout = 10 * time.Second

// watch is GET /v1/live: server-sent events, until the caller leaves, the node
// stops, the token that it was opened with expires, or somebody else is to have
// the place.
func (s *Server) watch(c *gin.Context) error {
	until, admin := time.Now().Add(s.cfg.Live.Life()), false
	sku := c.Query("sku") // none: the overview, for operators only
	if c.GetHeader("Authorization") != "" || sku == "" {
		who, err := s.caller(c)
		if err != nil {
			return err
		}
		if !who.Admin {
			return errForbidden
		}
		admin = true
		if who.Expires.Before(until) {
			until = who.Expires
		}
	}
	ctx, end := context.WithDeadline(c.Request.Context(), until)
	defer end()
	asking, cancel := context.WithTimeout(ctx, maxRequestTime)
	defer cancel()
	if sku != "" {
		if _, err := s.cfg.Service.Sale(asking, sku); err != nil {
			return err
		}
	}
	w, err := s.cfg.Live.Watch(sku, httplimit.Network(c.ClientIP()), admin)
	if err != nil {
		return err
	}
	defer w.Leave()

	c.Header("Content-Type", "text/event-stream")
	c.Header("Cache-Control", "no-store")
	c.Header("X-Accel-Buffering", "no") // nginx would keep it back
	c.Status(http.StatusOK)
	out := http.NewResponseController(c.Writer)
	// Wait a moment before coming back: a node that stops sends everybody away.
	// A snapshot comes every second, changed or not, so silence means trouble.
	next := append([]byte("retry: 1000\n\n"), w.History()...)
	for {
		if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := c.Writer.Write(next); err != nil {
			return nil //nolint:nilerr // nobody is there to hear of it
		}
		c.Writer.Flush()
		var more bool
		select {
		case <-ctx.Done():
			return nil
		case next, more = <-w.Next():
			if !more {
				return nil
			}
		}
	}
}

// Missing names the stores that don't answer.
func (s *Server) Missing(ctx context.Context) (names []string) {
	missing, _ := s.missing.Get(ctx)
	for _, check := range missing {
		names = append(names, check.Name)
	}
	return names
}
