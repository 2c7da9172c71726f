package doctor

import (
	"database/sql"
	"os"
	"slices"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TiDB ignores CHECK constraints by default, and does not add ignored constraints to a table
// later.
func TestTiDB(t *testing.T) {
	if os.Getenv(servers.TiDBVariable) == "" {
		t.Skip(servers.TiDBVariable + " does not name a tidb-server; STORES.md describes how to build one")
	}
	db, err := sql.Open("mysql", servertest.OpenSQL(t, servers.KindReal))
	if err != nil {
		t.Fatalf("open TiDB: got error %v, want none", err)
	}
	defer db.Close()
	const check = "CONSTRAINT sales_never_oversold CHECK (sold <= total)"
	for _, step := range []struct {
		statement string
		bad       []string
	}{
		{"SET GLOBAL tidb_enable_check_constraint = OFF", []string{"tidb_enable_check_constraint OFF"}},
		{"CREATE TABLE sales (sold INT, total INT, " + check + ")", []string{"tidb_enable_check_constraint OFF", "sales lacks its CHECK: true"}},
		{"SET GLOBAL tidb_enable_check_constraint = ON", []string{"sales lacks its CHECK: true"}},
		{"ALTER TABLE sales ADD " + check, nil},
	} {
		if _, err := db.ExecContext(t.Context(), step.statement); err != nil {
			t.Fatalf("execute %q: got error %v, want none", step.statement, err)
		}
		var bad []string
		for _, f := range examineMySQL(t.Context(), db, Plan{Nodes: 100, MySQLConnections: 100}) {
			if f.Level == Bad {
				bad = append(bad, f.What)
			}
		}
		if !slices.Equal(bad, step.bad) {
			t.Errorf("findings after %s: got bad findings %q, want %q", step.statement, bad, step.bad)
		}
	}
}
