package store

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/orders/internal/kit"
)

// What a node tells of itself travels with its heartbeat, for as long as it is
// alive. Too much of it never keeps a node from saying that it is there.
func TestNodesTellTheirStats(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		stats := `{"up":1}`
		store.stats = func() string { return stats }
		beat := func(node string) {
			t.Helper()
			if rows, err := store.Beat(t.Context(), node, nil, time.Minute); err != nil || len(rows) == 0 || rows[0].Stats != "" {
				t.Errorf("%+v, %v", rows, err)
			}
		}
		beat("old")
		kit.Exec(t, store.DB, "UPDATE nodes SET seen_at = ?", time.Now().UTC().Add(-time.Hour/2))
		beat("one")
		stats = strings.Repeat("x", maxStats+1)
		beat("two")
		rows, err := store.Nodes(t.Context(), time.Minute)
		if err != nil || len(rows) != 2 || rows[0].ID != "one" || rows[0].Stats != `{"up":1}` || rows[1].Stats != "" {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}
