package servers

import (
	"context"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

// A lossless primary confirms only transactions that its replica has received. A promoted
// replica therefore has all confirmed rows. The test then exchanges the roles twice.
func TestMySQLReplica(t *testing.T) {
	t.Parallel()
	primary, replica := startMySQL(t, MySQLConfig{ExtraArgs: []string{LogReplicated}}), startMySQL(t, MySQLConfig{ExtraArgs: []string{LogReplicated}})
	dsn, err := primary.NewDatabase(t.Context(), "shop")
	need(t, err)
	w, err := wire.Open(primary.Addr())
	need(t, err)
	t.Cleanup(func() { need(t, w.Close()) })
	need(t, replica.ReplicateFrom(t.Context(), w.Addr()))
	caughtUp := func(to, from *MySQL) {
		t.Helper()
		check.Eventually(t, "the replica has caught up", func() bool {
			has, err := to.TransactionCount(t.Context())
			all, err2 := from.TransactionCount(t.Context())
			return err == nil && err2 == nil && has == all
		})
	}
	caughtUp(replica, primary)
	need(t, primary.RequireReplica(t.Context()))
	db := openMySQL(t, dsn)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
	need(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
	need(t, err)

	w.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (2)"); err == nil {
		t.Error("insert without the replica: got no error, want a timeout")
	}
	rows := func(m *MySQL) (n int) {
		t.Helper()
		need(t, openMySQL(t, m.DSN("shop")).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n))
		return n
	}
	if n := rows(primary); n != 1 {
		t.Errorf("visible rows on the primary: got %d, want 1, the confirmed one", n)
	}
	primary.Kill()
	need(t, replica.Promote(t.Context()))
	if n := rows(replica); n != 1 {
		t.Errorf("rows on the promoted replica: got %d, want 1", n)
	}
	need(t, primary.RestartEmpty(t.Context()))
	need(t, primary.ReplicateFrom(t.Context(), replica.Addr()))
	caughtUp(primary, replica)
	if n := rows(primary); n != 1 {
		t.Errorf("rows on the old primary: got %d, want 1", n)
	}
	_, err = openMySQL(t, replica.DSN("shop")).ExecContext(t.Context(), "INSERT INTO t VALUES (3)")
	need(t, err)
	caughtUp(primary, replica)
	replica.Kill()
	need(t, primary.Promote(t.Context()))
	need(t, replica.RestartEmpty(t.Context()))
	need(t, replica.ReplicateFrom(t.Context(), primary.Addr()))
	caughtUp(replica, primary)
	if n := rows(replica); n != 2 {
		t.Errorf("rows on the second old primary: got %d, want 2, including the row that it wrote itself", n)
	}
}
