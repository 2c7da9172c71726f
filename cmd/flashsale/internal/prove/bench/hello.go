package bench

import (
	"context"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// Hello serves the gin counterparts until ctx ends. They show what the framework can
// do with the same requests.
//
//	POST /v1/orders  returns constant JSON and does not read the request
//	POST /v1/echo    binds the body and returns it
//	GET  /livez      returns 200
func Hello(ctx context.Context, addr string) error {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New() // no logger: it would cost 15 to 25 %
	engine.POST("/v1/orders", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"message": "hello"}) })
	engine.GET("/livez", func(*gin.Context) {})
	engine.POST("/v1/echo", func(c *gin.Context) {
		var body struct {
			SKU      string `json:"sku"`
			Quantity int64  `json:"quantity"`
		}
		if err := c.ShouldBindJSON(&body); err != nil {
			c.Status(http.StatusBadRequest)
			return
		}
		c.JSON(http.StatusOK, body)
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return lab.Serve(ctx, listener, engine)
}
