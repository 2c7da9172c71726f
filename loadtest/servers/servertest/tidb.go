package servertest

import (
	"os"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
)

// Why a test does not run on TiDB.
const (
	killed  = "TiDB's storage for one process does not sync what it commits: the test kills the database, or starts it with settings of MySQL's"
	counted = "TiDB does not count the rows that a session reads"
	ordered = "the test rests on the order in which MySQL reads an index"
)

// notOnTiDB are the tests that do not run on TiDB.
var notOnTiDB = map[string]string{
	"TestReadsDoNotGrowWithTheOrders":          counted,
	"TestPaidUnitsAreCheap":                    counted,
	"TestCommitDoesNotGrowWithOneBuyersOrders": counted,
	"TestUnmarkedReleaseIsNoDrift":             ordered,
}

// OnTiDB skips a test of TiDB's where the real database of the tests is another one.
func OnTiDB(tb testing.TB) {
	tb.Helper()
	if !onTiDB() {
		tb.Skip(servers.TiDBVariable + " does not name a tidb-server; OPERATIONS.md says how to build one")
	}
}

func onTiDB() bool { return os.Getenv(servers.TiDBVariable) != "" }

// skipOnTiDB ends a test that TiDB cannot run.
func skipOnTiDB(tb testing.TB) {
	tb.Helper()
	name, _, _ := strings.Cut(tb.Name(), "/")
	if why := notOnTiDB[name]; why != "" && onTiDB() {
		tb.Skip("not on TiDB: " + why)
	}
}

// OpenMySQL starts a MySQL for this test alone, which may kill it and start it again.
func OpenMySQL(tb testing.TB, o servers.MySQLOptions) *servers.MySQL {
	tb.Helper()
	if onTiDB() {
		tb.Skip("not on TiDB: " + killed)
	}
	wantReal(tb)
	m, err := servers.StartMySQL(tb.Context(), o)
	require(tb, err)
	tb.Cleanup(func() { closed(tb, m.Close()) })
	return m
}
