package ginlimit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/limit"
)

// A request takes the cost that ask returns. A refused request does not reach the
// handler.
func TestMiddleware(t *testing.T) {
	gin.SetMode(gin.TestMode)
	_, client := servertest.StartWithFrozenClock(t)
	perBuyer, err := limit.Parse("1/h:5")
	check.Must(t, err)
	served := 0
	engine := gin.New()
	control := admission.New(ratelimit.New(client, ratelimit.Config{Timeout: time.Hour}), nil)
	engine.Use(Middleware(control, func(c *gin.Context) (int, []ratelimit.Bucket) {
		return 3, []ratelimit.Bucket{{Name: "buyer", ID: c.GetHeader("X-Buyer"), Limit: perBuyer}}
	}, nil))
	engine.GET("/", func(c *gin.Context) { served++; c.Status(http.StatusNoContent) })
	for _, c := range []struct {
		buyer  string
		status int
		state  string
	}{
		{"ann", http.StatusNoContent, `"buyer";r=2`}, {"ann", http.StatusTooManyRequests, `"buyer";r=2;t=3600`},
		{"bob", http.StatusNoContent, `"buyer";r=2`}, {"", http.StatusBadRequest, ""},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("X-Buyer", c.buyer)
		engine.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("RateLimit") != c.state {
			t.Errorf("request of buyer %q: got %d %v %s, want %d, RateLimit %q", c.buyer, w.Code, w.Header(), w.Body, c.status, c.state)
		}
	}
	if served != 2 {
		t.Errorf("handler behind the middleware: got %d requests, want 2", served)
	}
}
