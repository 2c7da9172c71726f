package servers

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func openMySQL(t *testing.T, dsn string) *sql.DB {
	c, err := mysql.ParseDSN(dsn)
	need(t, err)
	c.Logger = &mysql.NopLogger{} // the tests break connections
	connector, err := mysql.NewConnector(c)
	need(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { need(t, db.Close()) })
	return db
}

func TestMySQLRestart(t *testing.T) {
	t.Parallel()
	m := startMySQL(t, MySQLConfig{})
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
		t.Errorf("pid after Kill: got %d, want 0", pid)
	}
	if _, err := rows(); err == nil {
		t.Error("query after Kill: got rows, want an error")
	}
	need(t, m.Restart(t.Context()))
	insert()
	need(t, m.Restart(t.Context()))
	if n, err := rows(); n != 2 || err != nil {
		t.Errorf("rows after a kill and a stop: got %d, error %v, want 2", n, err)
	}
	need(t, m.RestartEmpty(t.Context()))
	if _, err := rows(); err == nil {
		t.Error("after RestartEmpty: got the table, want an error")
	}
	_, err = m.NewDatabase(t.Context(), "shop")
	need(t, err)
}

func TestMySQLDatabases(t *testing.T) {
	notOnTiDB(t)
	m := startMySQL(t, MySQLConfig{})
	for _, name := range []string{"", "a`b", "a b", "ä", strings.Repeat("a", 65)} {
		if _, err := m.NewDatabase(t.Context(), name); err == nil {
			t.Errorf("NewDatabase(%q): got no error, want one", name)
		}
	}
	dsn, err := m.NewDatabase(t.Context(), "shop")
	need(t, err)
	_, err = openMySQL(t, dsn).ExecContext(t.Context(), "CREATE TABLE t (id INT)")
	need(t, err)
	_, err = m.NewDatabase(t.Context(), "shop") // again: empty
	need(t, err)
	if _, err := openMySQL(t, dsn).ExecContext(t.Context(), "SELECT * FROM t"); err == nil {
		t.Error("new database of the same name: got the old table, want an empty database")
	}

	// Durability and the tests depend on these settings. Servers that share a directory for
	// temporary files would delete each other's tables.
	const settings = "SELECT CONCAT_WS(' ', @@innodb_flush_log_at_trx_commit, @@log_bin + 0, @@sync_binlog, @@max_connections, @@character_set_database, @@tmpdir)"
	check := func(dsn, want string) {
		t.Helper()
		var got string
		need(t, openMySQL(t, dsn).QueryRowContext(t.Context(), settings).Scan(&got))
		if got != want {
			t.Errorf("settings: got %s, want %s", got, want)
		}
	}
	check(dsn, "1 1 1 500 utf8mb4 "+m.dir)
	without := startMySQL(t, MySQLConfig{ExtraArgs: []string{"--skip-log-bin", "--character-set-server=latin1"}})
	check(without.DSN(""), "1 0 1 500 latin1 "+without.dir)
}

// notOnTiDB skips a test of settings that TiDB does not have.
func notOnTiDB(t *testing.T) {
	t.Helper()
	if os.Getenv(TiDBVariable) != "" {
		t.Skip("not on TiDB: the test needs settings of MySQL")
	}
}

// With TiDBVariable, the other tests of MySQL run on TiDB.
func TestTiDB(t *testing.T) {
	if os.Getenv(TiDBVariable) == "" {
		t.Skip(TiDBVariable + " does not name a tidb-server; STORES.md describes how to build one")
	}
	if m := startMySQL(t, MySQLConfig{}); !strings.HasPrefix(m.Version, "TiDB ") {
		t.Errorf("version: got %s, want TiDB", m.Version)
	}
}
