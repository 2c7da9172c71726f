package servers

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

func openMySQL(t *testing.T, dsn string) *sql.DB {
	c, err := mysql.ParseDSN(dsn)
	need(t, err)
	c.Logger = &mysql.NopLogger{} // the tests break connections on purpose
	connector, err := mysql.NewConnector(c)
	need(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { need(t, db.Close()) })
	return db
}

func TestMySQLRestart(t *testing.T) {
	m := startMySQL(t, MySQLOptions{})
	dsn, err := m.NewDatabase(t.Context(), "shop")
	need(t, err)
	_, err = openMySQL(t, dsn).ExecContext(t.Context(), "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")
	need(t, err)
	insert := func() {
		_, err := openMySQL(t, dsn).ExecContext(t.Context(), "INSERT INTO t VALUES (NULL)")
		need(t, err)
	}
	rows := func() (n int, err error) {
		err = openMySQL(t, dsn).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n)
		return n, err
	}

	insert()
	m.Kill()
	if pid := m.Pid(); pid != 0 {
		t.Errorf("pid %d after Kill", pid)
	}
	if _, err := rows(); err == nil {
		t.Error("answers after Kill")
	}
	need(t, m.Restart(t.Context()))
	insert()
	need(t, m.Restart(t.Context()))
	if n, err := rows(); n != 2 || err != nil {
		t.Errorf("after a kill and a stop: %d rows (%v), want 2", n, err)
	}
	need(t, m.RestartEmpty(t.Context()))
	if _, err := rows(); err == nil {
		t.Error("restarted empty: table kept")
	}
	_, err = m.NewDatabase(t.Context(), "shop")
	need(t, err)
}

// Two that share a folder for temporary files would delete each other's tables.
func TestMySQLKeepsItsTemporaryFilesToItself(t *testing.T) {
	m := startMySQL(t, MySQLOptions{})
	var folder string
	need(t, openMySQL(t, m.DSN("")).QueryRowContext(t.Context(), "SELECT @@tmpdir").Scan(&folder))
	if folder != m.dir {
		t.Errorf("temporary files go to %s, not to %s", folder, m.dir)
	}
}

func TestMySQLPause(t *testing.T) {
	m := startMySQL(t, MySQLOptions{})
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return openMySQL(t, m.DSN("")).PingContext(ctx)
	}
	need(t, ask())
	need(t, m.Pause())
	if err := ask(); err == nil {
		t.Error("answers while paused")
	}
	need(t, m.Resume())
	eventually(t, "answering again", func() bool { return ask() == nil })
}

func TestMySQLDatabases(t *testing.T) {
	m := startMySQL(t, MySQLOptions{})
	for _, name := range []string{"", "a`b", "a b", "ä", strings.Repeat("a", 65)} {
		if _, err := m.NewDatabase(t.Context(), name); err == nil {
			t.Errorf("database %q created", name)
		}
	}
	dsn, err := m.NewDatabase(t.Context(), "shop")
	need(t, err)
	_, err = openMySQL(t, dsn).ExecContext(t.Context(), "CREATE TABLE t (id INT)")
	need(t, err)
	_, err = m.NewDatabase(t.Context(), "shop") // again: empty
	need(t, err)
	if _, err := openMySQL(t, dsn).ExecContext(t.Context(), "SELECT * FROM t"); err == nil {
		t.Error("a new database has the old one's table")
	}

	// What durability and the tests rest on, as the server itself sees it.
	var flush, connections int
	var charset string
	need(t, openMySQL(t, dsn).QueryRowContext(t.Context(),
		"SELECT @@innodb_flush_log_at_trx_commit, @@max_connections, @@character_set_database").
		Scan(&flush, &connections, &charset))
	if flush != 1 || connections != 500 || charset != "utf8mb4" {
		t.Errorf("flush=%d connections=%d charset=%s", flush, connections, charset)
	}
}

func TestMySQLThatCannotStartSaysWhy(t *testing.T) {
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := StartMySQL(t.Context(), MySQLOptions{ExtraArgs: []string{"--no-such-setting"}})
	if errors.Is(err, ErrNotInstalled) {
		need(t, err)
	}
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("error = %v, want the end of the log", err)
	}
	if left := remains(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
