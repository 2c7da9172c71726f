package servers

import (
	"context"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

// A primary that waits for its replica confirms nothing that the replica lacks,
// and the replica has all that was confirmed once it is promoted. The primary
// follows it after that, and the two change roles once more.
func TestMySQLReplica(t *testing.T) {
	t.Parallel()
	primary, replica := startMySQL(t, MySQLOptions{ExtraArgs: []string{LogReplicated}}), startMySQL(t, MySQLOptions{ExtraArgs: []string{LogReplicated}})
	dsn, err := primary.NewDatabase(t.Context(), "shop")
	need(t, err)
	w, err := wire.Open(primary.Addr())
	need(t, err)
	t.Cleanup(func() { need(t, w.Close()) })
	need(t, replica.Follow(t.Context(), w.Addr()))
	caughtUp := func(to, from *MySQL) {
		t.Helper()
		check.Eventually(t, "caught up", func() bool {
			has, err := to.Transactions(t.Context())
			all, err2 := from.Transactions(t.Context())
			return err == nil && err2 == nil && has == all
		})
	}
	caughtUp(replica, primary)
	need(t, primary.Lossless(t.Context()))
	db := openMySQL(t, dsn)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
	need(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
	need(t, err)

	w.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (2)"); err == nil {
		t.Error("confirmed without the replica")
	}
	rows := func(m *MySQL) (n int) {
		t.Helper()
		need(t, openMySQL(t, m.DSN("shop")).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n))
		return n
	}
	if n := rows(primary); n != 1 {
		t.Errorf("%d rows are shown, want 1: the other was not confirmed", n)
	}
	primary.Kill()
	need(t, replica.Promote(t.Context()))
	if n := rows(replica); n != 1 {
		t.Errorf("%d rows on the replica, want 1", n)
	}
	need(t, primary.RestartEmpty(t.Context()))
	need(t, primary.Follow(t.Context(), replica.Addr()))
	caughtUp(primary, replica)
	if n := rows(primary); n != 1 {
		t.Errorf("%d rows on the old primary, want 1", n)
	}
	_, err = openMySQL(t, replica.DSN("shop")).ExecContext(t.Context(), "INSERT INTO t VALUES (3)")
	need(t, err)
	caughtUp(primary, replica)
	replica.Kill()
	need(t, primary.Promote(t.Context()))
	need(t, replica.RestartEmpty(t.Context()))
	need(t, replica.Follow(t.Context(), primary.Addr()))
	caughtUp(replica, primary)
	if n := rows(replica); n != 2 {
		t.Errorf("%d rows on the second old primary, want 2: it has to copy what it wrote itself", n)
	}
}
