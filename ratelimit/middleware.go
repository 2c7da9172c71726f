package ratelimit

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Middleware lets a request pass if all of its buckets have a token, and
// writes SetHeaders' headers, whatever the answer. A request that doesn't pass
// ends here, with what refuse writes: it gets a *LimitedError, an error that
// wraps ErrUnavailable (Redis away, policy Closed) or ErrBadRequest, or the
// request context's own. A nil refuse is Refuse.
func Middleware(l *Limiter, buckets func(*gin.Context) []Bucket, refuse func(*gin.Context, error)) gin.HandlerFunc {
	if refuse == nil {
		refuse = Refuse
	}
	return func(c *gin.Context) {
		result, err := l.Admit(c.Request.Context(), 1, buckets(c)...)
		SetHeaders(c.Writer.Header(), result)
		if err != nil {
			c.Abort()
			refuse(c, err)
		}
	}
}

// Refuse writes a minimal application/problem+json (RFC 9457) for an error of
// Admit's: 429 rate_limited, 503 unavailable, 400 invalid_request.
func Refuse(c *gin.Context, err error) {
	var limited *LimitedError
	status, code := http.StatusServiceUnavailable, "unavailable"
	switch {
	case errors.As(err, &limited):
		status, code = http.StatusTooManyRequests, "rate_limited"
	case errors.Is(err, ErrBadRequest):
		status, code = http.StatusBadRequest, "invalid_request"
	default:
		c.Header("Retry-After", "1")
	}
	c.Header("Content-Type", "application/problem+json")
	c.JSON(status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(status), status, code})
}
