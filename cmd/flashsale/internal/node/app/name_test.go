package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/store"
)

// A second node of one name refuses to start, and the first goes on. After a clean stop
// the name is free at once, and after a crash once the last heartbeat is old.
func TestNameOfARunningNode(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		named := func(c *Config) { c.Node, c.Lease = "one", time.Minute }
		first := start(t, s, named)
		cfg := testConfig(s)
		named(&cfg)
		second, err := New(cfg)
		check.Must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := second.Run(ctx); err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), "--node") {
			t.Errorf("a second node of that name: %v", err)
		}
		first.send("GET", "/readyz", "", "").is(200)
		check.Must(t, first.stop())
		check.Must(t, start(t, s, named).stop()) // long before a lease is over

		dead, err := store.Open(s.SQL, store.StoreConfig{})
		check.Must(t, err)
		defer dead.Close()
		began := time.Now()
		_, err = dead.Beat(t.Context(), "one", nil, time.Minute)
		check.Must(t, err)
		start(t, s, func(c *Config) { c.Node, c.Lease = "one", time.Second })
		if waited := time.Since(began); waited < time.Second {
			t.Errorf("after a crash it has started within %v", waited)
		}
	})
}
