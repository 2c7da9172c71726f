package servertest

import (
	"context"
	"os"
	"testing"

	"flashsale/loadtest/servers"
)

// Why a test does not run on TiDB.
const (
	killed  = "its storage for one process does not sync what it commits, and the test kills the database, or wants settings of MySQL's"
	counted = "it does not count the rows that a session reads"
	ordered = "the test rests on the order in which MySQL reads an index"
)

// onTiDB are the tests that do not run on TiDB, but for those that call OpenMySQL.
var onTiDB = map[string]string{
	"TestReadsDoNotGrowWithTheOrders":          counted,
	"TestPaidUnitsAreCheap":                    counted,
	"TestCommitDoesNotGrowWithOneBuyersOrders": counted,
	"TestUnmarkedReleaseIsNoDrift":             ordered,
}

// notOnTiDB skips the test where the real database is a TiDB and there is a reason.
func notOnTiDB(tb testing.TB, why string) {
	tb.Helper()
	if why != "" && os.Getenv(servers.TiDBVariable) != "" {
		tb.Skip("not on TiDB: " + why)
	}
}

// OpenMySQL starts a MySQL that no other test uses, for the rest of the test. The test may
// kill and restart it.
func OpenMySQL(tb testing.TB, o servers.MySQLOptions) *servers.MySQL {
	tb.Helper()
	notOnTiDB(tb, killed)
	return started(tb, func(ctx context.Context) (*servers.MySQL, error) { return servers.StartMySQL(ctx, o) })
}
