package web

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"flashsale/cmd/flashsale/internal/auth"
)

const (
	requestID = "X-Request-Id" // header
	whoKey    = "flashsale/identity"
	codeKey   = "flashsale/code"
)

// instance and sequence make request ids: unique, and cheaper than a UUID each.
var (
	instance = uuid.NewString()[:8] + "-"
	sequence atomic.Uint64
)

// identify gives the request its id: the caller's where it is sane.
func (s *Server) identify(c *gin.Context) {
	id := c.GetHeader(requestID)
	if !sane(id) {
		id = instance + strconv.FormatUint(sequence.Add(1), 36)
	}
	c.Header(requestID, id)
}

// sane ids are short and cannot break a log line or a header.
func sane(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		switch b := id[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '_', b == '.', b == ':':
		default:
			return false
		}
	}
	return true
}

// observe counts and, where wanted, logs what became of the request.
func (s *Server) observe(c *gin.Context) {
	start := time.Now()
	c.Next()
	took := time.Since(start)
	if !s.cfg.NoMetrics {
		s.metrics.request(c.FullPath(), c.Request.Method, c.Writer.Status(), c.GetString(codeKey), took)
	}
	if s.cfg.AccessLog {
		s.cfg.Log.Info("request",
			"request_id", c.Writer.Header().Get(requestID), "method", c.Request.Method, "path", c.Request.URL.Path,
			"status", c.Writer.Status(), "code", c.GetString(codeKey), "took", took, "ip", c.ClientIP())
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

// mostTime is how long a request may take: a store that neither answers nor
// fails must not keep its callers.
const mostTime = 10 * time.Second

// bounded ends the request's context after mostTime, which is a 503.
func (s *Server) bounded(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), mostTime)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// authenticate finds out who is calling.
func (s *Server) authenticate(c *gin.Context) {
	who, err := s.cfg.Verifier.FromHeader(c.GetHeader("Authorization"))
	if err != nil {
		if errors.Is(err, auth.ErrSignature) {
			s.strangers(c)
		}
		c.Header("WWW-Authenticate", "Bearer")
		s.fail(c, err)
		return
	}
	c.Set(whoKey, who)
}

// strangersEvery bounds how often the log speaks of tokens that were signed by
// somebody else: anybody can send them.
const strangersEvery = time.Minute

// strangers logs what two nodes with different secrets look like from inside.
func (s *Server) strangers(c *gin.Context) {
	now, last := time.Now().UnixNano(), s.warned.Load()
	if now-last < int64(strangersEvery) || !s.warned.CompareAndSwap(last, now) {
		return
	}
	s.cfg.Log.Warn("token refused: it was signed with another secret. Do all nodes have the same --secret? (said once a minute)",
		"request_id", c.Writer.Header().Get(requestID), "ip", c.ClientIP())
}

func (s *Server) mustBeAdmin(c *gin.Context) {
	if who, _ := c.Get(whoKey); !who.(auth.Identity).Admin {
		s.fail(c, errForbidden)
	}
}

// buyer is who is calling, for the handlers.
func buyer(c *gin.Context) string {
	who, _ := c.Get(whoKey)
	return who.(auth.Identity).Buyer
}
