package web

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/orders"
)

// demoTokenTTL is how long a demo's token is good: an afternoon.
const demoTokenTTL = 12 * time.Hour

// demoToken is POST /demo/token: whoever asks is a new buyer, or an operator.
// The route exists in demo mode only.
//
// A page from elsewhere may have its own name lead to this machine (DNS
// rebinding), and would be given a token as well: so the name by which the demo
// is called must be nobody's.
func (s *Server) demoToken(c *gin.Context) error {
	host, _, err := net.SplitHostPort(c.Request.Host)
	if err != nil {
		host = strings.Trim(c.Request.Host, "[]") // without a port
	}
	if net.ParseIP(host) == nil && host != "localhost" {
		return errHost
	}
	role, subject, scope := c.DefaultQuery("role", "buyer"), "demo-operator", auth.ScopeAdmin
	switch role {
	case "buyer":
		subject, scope = "demo-"+strings.ToLower(rand.Text()[:10]), ""
	case "operator":
	default:
		return &orders.InvalidError{Fields: map[string]string{"role": "must be buyer or operator"}}
	}
	token, err := s.cfg.Verifier.SignDemo(subject, scope, demoTokenTTL)
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, gin.H{"token": token, "subject": subject, "role": role})
	return nil
}

// A Crowd comes to the sale of a demo. One is here at a time.
type Crowd interface {
	Come(ctx context.Context) error // ErrCrowd: one is here already
	Leave()
}

// sendCrowd is POST /demo/crowd.
func (s *Server) sendCrowd(c *gin.Context) error {
	c.Status(http.StatusAccepted)
	return s.cfg.Crowd.Come(c.Request.Context())
}

// endCrowd is DELETE /demo/crowd.
func (s *Server) endCrowd(c *gin.Context) error {
	s.cfg.Crowd.Leave()
	c.Status(http.StatusNoContent)
	return nil
}
