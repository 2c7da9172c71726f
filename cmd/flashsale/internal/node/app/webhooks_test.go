package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/feed/webhooks"
)

// Nodes deliver what is sold, with a signature that a library of others verifies. A webhook whose
// endpoint answers 410 is in the overview of operators and in the metrics.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	verify, err := standardwebhooks.NewWebhook(webhooks.Secret([]byte(secret), "shop"))
	check.Must(t, err)
	var gone atomic.Bool
	bodies := make(chan string, 100)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verify.Verify(body, r.Header)
		}
		if check.OK(t, err); gone.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		bodies <- string(body)
	}))
	t.Cleanup(shop.Close)
	s := servertest.Open(t, servers.KindEmbedded)
	with := func(node string) func(*Config) {
		return func(c *Config) {
			often(node)(c)
			c.Demo, c.Changes, c.Webhook = true, true, map[string]string{"shop": shop.URL}
		}
	}
	one, two := start(t, s, with("one")), start(t, s, with("two"))
	one.put("S", 3, 2, 900)
	where := one.sold("S", "ann").where()
	two.pay("ann", where, "r").want(200)
	for body := ""; !strings.Contains(body, `"status":"paid"`); {
		body = check.Receive(t, "the paid order", bodies)
	}
	delivered := func(n *node) func() bool {
		return func() bool { return n.metric(`flashsale_webhook_lag_seconds{name="shop"}`) == 0 }
	}
	check.Eventually(t, "one knows that everything is delivered", delivered(one))
	check.Eventually(t, "two knows that everything is delivered", delivered(two))
	gone.Store(true)
	one.put("S", 5, 2, 900)
	watch(t, one.URL(), "", one.token("op", true)).until("the stopped webhook", "overview", func(e seen) bool {
		return slices.ContainsFunc(e.Feed, func(f webhooks.State) bool {
			return f.Name == "shop" && f.Stopped && f.Failures == 1 && f.Lag > 0 && strings.Contains(f.Error, "410 Gone")
		})
	})
	if failures := one.metric(`flashsale_webhook_failures{name="shop"}`); delivered(one)() || failures != 1 {
		t.Errorf("metrics of the stopped webhook: got %v failures and perhaps no lag, want 1 failure and a lag", failures)
	}
}
