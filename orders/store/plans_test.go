package store

import (
	"fmt"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/kit"
)

// Queries that nodes repeat, and that usually find few rows, do not read more rows as the number
// of orders grows.
func TestReadsDoNotGrowWithTheOrders(t *testing.T) {
	sql := servertest.OpenSQL(t, servers.KindReal)
	const orders = 3000
	full, _ := stocked(t, sql, orders)
	kit.Exec(t, full.DB, "ANALYZE TABLE orders") // otherwise the statistics may be of an empty table
	store, rowsRead := onOneConnection(t, full)
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"sums":       func() error { _, err := store.Sums(ctx, "S"); return err },
		"ended":      func() error { _, err := store.UnreleasedOrders(ctx, "S", 500); return err },
		"ended SKUs": func() error { _, err := store.EndedSKUs(ctx); return err },
		"expire":     func() error { _, err := store.Expire(ctx); return err },
		"a batch":    func() error { _, err := store.OrdersAtGate(ctx, "S", buyersOf(0, 100)); return err },
		"a few":      func() error { _, err := store.OrdersAtGate(ctx, "S", buyersOf(0, 3)); return err },
	} {
		before := rowsRead()
		check.Must(t, ask())
		if n := rowsRead() - before; n > orders/10 {
			t.Errorf("rows and index entries read by %q: got %d, want at most %d", name, n, orders/10)
		}
	}
}

func buyersOf(from, n int) []string {
	buyers := make([]string, n)
	for i := range buyers {
		buyers[i] = fmt.Sprint("buyer-", from+i)
	}
	return buyers
}

// onOneConnection returns the store on a single connection, and a function that returns the
// number of rows and index entries that the server has read for it. Index condition pushdown is
// off, because the server does not count entries that the engine filters out.
func onOneConnection(t *testing.T, s *Store) (*Store, func() int) {
	t.Helper()
	conn, err := s.sql.Conn(t.Context())
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.ExecContext(t.Context(), "SET SESSION optimizer_switch = 'index_condition_pushdown=off'")
	check.Must(t, err)
	one, err := s.WithPool(conn)
	check.Must(t, err)
	return one, func() int {
		rows, err := conn.QueryContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
		check.Must(t, err)
		defer func() { _ = rows.Close() }()
		total := 0
		for rows.Next() {
			var name string
			var n int
			check.Must(t, rows.Scan(&name, &n))
			total += n
		}
		check.Must(t, rows.Err())
		return total
	}
}
