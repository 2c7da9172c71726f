package store

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/orders/internal/kit"
)

// Nodes returns the statistics of live nodes only. Statistics that are too long are left out, and
// the heartbeat still succeeds.
func TestNodeStats(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		stats := `{"up":1}`
		store.stats = func() string { return stats }
		beat := func(node string) {
			t.Helper()
			if rows, err := store.Heartbeat(t.Context(), node, nil, time.Minute); err != nil || len(rows) == 0 || rows[0].Stats != "" {
				t.Errorf("Beat: got %+v, error %v, want nodes without statistics", rows, err)
			}
		}
		beat("old")
		kit.Exec(t, store.DB, "UPDATE nodes SET seen_at = ?", time.Now().UTC().Add(-time.Hour/2))
		beat("one")
		stats = strings.Repeat("x", maxStats+1)
		beat("two")
		rows, err := store.LiveNodes(t.Context(), time.Minute)
		if err != nil || len(rows) != 2 || rows[0].ID != "one" || rows[0].Stats != `{"up":1}` || rows[1].Stats != "" {
			t.Errorf("Nodes: got %+v, error %v, want node one with statistics and node two without", rows, err)
		}
	})
}
