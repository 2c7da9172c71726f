package web

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
)

// demoTokenTTL is how long a demo's token is good: an afternoon.
const demoTokenTTL = 12 * time.Hour

// demoToken is POST /demo/token: whoever asks is a new buyer, or an operator.
// The route exists in demo mode only.
func (s *Server) demoToken(c *gin.Context) error {
	role, subject := c.DefaultQuery("role", "buyer"), "demo-operator"
	switch role {
	case "buyer":
		subject = "demo-" + strings.ToLower(rand.Text()[:10])
	case "operator":
	default:
		return &orders.InvalidError{Fields: map[string]string{"role": "must be buyer or operator"}}
	}
	token, err := s.cfg.Verifier.Sign(subject, role == "operator", demoTokenTTL)
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, gin.H{"token": token, "subject": subject, "role": role})
	return nil
}
