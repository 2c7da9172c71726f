// Package ginlimit is the limiter in front of Gin's handlers.
package ginlimit

import (
	"github.com/gin-gonic/gin"

	"flashsale/ratelimit"
)

// Middleware is ratelimit.Middleware for Gin. A nil refuse is ratelimit.Refuse.
func Middleware(l *ratelimit.Limiter, ask func(*gin.Context) (cost int, buckets []ratelimit.Bucket), refuse func(*gin.Context, error)) gin.HandlerFunc {
	if refuse == nil {
		refuse = func(c *gin.Context, err error) { ratelimit.Refuse(c.Writer, c.Request, err) }
	}
	return func(c *gin.Context) {
		cost, buckets := ask(c)
		result, err := l.Admit(c.Request.Context(), cost, buckets...)
		ratelimit.SetHeaders(c.Writer.Header(), result)
		if err != nil {
			c.Abort()
			refuse(c, err)
		}
	}
}
