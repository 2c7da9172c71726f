package web

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/orders"
)

const demoTokenTTL = 12 * time.Hour

// demoToken handles POST /demo/token, which exists in demo mode only. It returns a token
// for a new buyer or for an operator.
//
// A foreign web page could resolve its own host name to this machine (DNS rebinding) and
// then request a token. Therefore the Host header must be localhost or an IP address.
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
	c.JSON(http.StatusOK, gin.H{"token": token, "subject": subject, "role": role})
	return nil
}

// A Crowd sends buyers to a sale of a demo, one crowd at a time.
type Crowd interface {
	// Start starts a crowd for the sale sku, or for the newest sale of the demo if sku is empty. It
	// returns a *CrowdRunningError if there is a crowd already, and ErrCrowdRunning while one leaves
	// and if the node stops.
	Start(ctx context.Context, sku string) (CrowdSize, error)
	// Stop ends the crowd, if there is one.
	Stop()
}

// A CrowdSize describes a crowd that has started.
type CrowdSize struct {
	SKU     string `json:"sku"`
	Rate    int    `json:"orders_per_second"`
	Seconds int    `json:"seconds"` // duration, from the opening of the sale on
}

// A CrowdRunningError means that there is a crowd already.
type CrowdRunningError struct {
	SKU  string
	Left time.Duration // time until the crowd ends
}

func (e *CrowdRunningError) Error() string {
	return fmt.Sprintf("web: the sale %s has a demo crowd already", e.SKU)
}

// sendCrowd handles POST /demo/crowd.
func (s *Server) sendCrowd(c *gin.Context) error {
	size, err := s.cfg.Crowd.Start(c.Request.Context(), c.Query("sku"))
	if err == nil {
		c.JSON(http.StatusAccepted, size)
	}
	return err
}

// endCrowd handles DELETE /demo/crowd.
func (s *Server) endCrowd(c *gin.Context) error {
	s.cfg.Crowd.Stop()
	c.Status(http.StatusNoContent)
	return nil
}
