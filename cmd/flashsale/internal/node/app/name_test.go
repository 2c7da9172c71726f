package app

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/store"
)

// A second node with the name of a running node fails to start, and the first node
// continues. After a clean stop, the name is free at once. After a crash, it is free when
// the last heartbeat is older than the lease.
func TestNodeNameIsUnique(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		named := func(c *Config) { c.Node = "one" }
		first := start(t, s, named)
		other, err := store.Open(s.SQL, store.Config{})
		check.Must(t, err)
		defer other.Close()
		check.Eventually(t, "the first heartbeat is in the database", func() bool {
			nodes, err := other.LiveNodes(t.Context(), time.Hour)
			return err == nil && len(nodes) > 0
		})
		cfg := testConfig(t, s)
		named(&cfg)
		second, err := New(cfg)
		check.Must(t, err)
		if err := second.Run(check.Context(t)); err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), "--node") {
			t.Errorf("second node of the same name: got error %v, want an error with the name and --node", err)
		}
		first.send("GET", "/readyz", "", "").want(200)
		check.Must(t, first.stop())
		check.Must(t, start(t, s, func(c *Config) { named(c); c.Lease = 1000 * time.Hour }).stop()) // this start does not wait for a heartbeat to expire

		began := time.Now()
		check.Must(t, check.Err(other.Heartbeat(t.Context(), "one", nil, time.Minute)))
		start(t, s, func(c *Config) { named(c); c.Lease = time.Second })
		if waited := time.Since(began); waited < time.Second {
			t.Errorf("start after a crash: got the name of the node after %v, want at least 1s", waited)
		}
	})
}
