package app

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/store"
)

// A node whose heartbeats fail is not ready, at its start and later, although the database answers.
// Other nodes take over its SKUs.
func TestNodeWithoutHeartbeatIsNotReady(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	st, err := store.Open(s.SQL, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	refuse := func() {
		check.Must(t, st.DB.Exec("CREATE TRIGGER refuse BEFORE INSERT ON nodes BEGIN SELECT RAISE(FAIL, 'heartbeat refused'); END").Error)
	}
	accept := func() { check.Must(t, st.DB.Exec("DROP TRIGGER refuse").Error) }

	refuse()
	cfg, log := testConfig(t, s), check.Output(t)
	cfg.Lease, cfg.Log = time.Second, slog.New(slog.NewTextHandler(log, nil))
	a, err := New(cfg)
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n := &node{App: a, t: t}
	check.Eventually(t, "the node waits for its first heartbeat", func() bool { return strings.Contains(log.String(), "heartbeat refused") })
	n.send("GET", "/readyz", "", "").want(503)
	accept()
	check.Receive(t, "the node is ready", a.Ready())
	n.send("GET", "/readyz", "", "").want(200)

	refuse()
	check.Eventually(t, "the node is not ready, because its heartbeats fail", func() bool {
		answer := n.send("GET", "/readyz", "", "")
		return answer.status == 503 && answer.has("mysql does not answer")
	})
	accept()
	check.Eventually(t, "the node is ready again", func() bool { return n.send("GET", "/readyz", "", "").status == 200 })
	cancel()
	check.OK(t, <-done)
}
