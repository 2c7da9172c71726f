// Package ginlimit limits the requests to Gin handlers. Package httplimit has everything
// but the middleware.
package ginlimit

import (
	"github.com/gin-gonic/gin"

	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
)

// Middleware is like httplimit.Middleware, for Gin. A nil refuse means httplimit.Refuse.
func Middleware(control *admission.Control, ask func(*gin.Context) (cost int, buckets []ratelimit.Bucket), refuse func(*gin.Context, error)) gin.HandlerFunc {
	if refuse == nil {
		refuse = func(c *gin.Context, err error) { httplimit.Refuse(c.Writer, c.Request, err) }
	}
	return func(c *gin.Context) {
		cost, buckets := ask(c)
		result, err := control.Admit(c.Request.Context(), cost, buckets...)
		httplimit.SetHeaders(c.Writer.Header(), result)
		if err != nil {
			c.Abort()
			refuse(c, err)
		}
	}
}
