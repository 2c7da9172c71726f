package web

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/ratelimit/httplimit"
)

// document returns a handler that serves a page under a Content-Security-Policy.
func document(html []byte, policy string) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Header("Content-Security-Policy", policy)
		c.Header("Referrer-Policy", "no-referrer")
		c.Header("Cache-Control", "no-cache") // after an upgrade, an old page would call the new API
		c.Data(http.StatusOK, "text/html; charset=utf-8", html)
	}
}

// writeTimeout bounds the write of one snapshot. It replaces the server's WriteTimeout,
// which bounds a whole response.
const writeTimeout = 10 * time.Second

// watch handles GET /v1/live, a stream of server-sent events. The stream ends if the
// client leaves, the node stops, the token expires, or Live.StreamLife is over.
func (s *Server) watch(c *gin.Context) error {
	until, admin := time.Now().Add(s.cfg.Live.StreamLife()), false
	sku := c.Query("sku") // "": the overview, for operators only
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
	c.Header("X-Accel-Buffering", "no") // nginx would buffer the stream
	c.Status(http.StatusOK)
	if c.Request.Method == http.MethodHead {
		return nil
	}
	out := http.NewResponseController(c.Writer)
	// A node that stops ends all its streams. The retry field delays the reconnect by a
	// second. A snapshot is sent every second even if nothing has changed, so that a client
	// can detect a dead stream.
	next := append([]byte("retry: 1000\n\n"), w.History()...)
	for {
		if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := c.Writer.Write(next); err != nil {
			return nil //nolint:nilerr // the client has gone away
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

// MissingDependencies returns the names of the dependencies that do not respond.
func (s *Server) MissingDependencies(ctx context.Context) (names []string) {
	missing, _ := s.missing.Get(ctx)
	for _, check := range missing {
		names = append(names, check.Name)
	}
	return names
}
