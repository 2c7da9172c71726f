package servertest

import (
	"context"
	"os"
	"testing"

	"flashsale/loadtest/servers"
)

// Reasons for which a test does not run on TiDB.
const (
	killed  = "its storage does not sync commits to disk and has no settings of MySQL, and the test kills the database or needs them"
	counted = "it does not count the rows that a session reads"
	ordered = "the test depends on the order in which MySQL reads an index"
	waits   = "it has no SKIP LOCKED, so numbering waits for locked rows"
)

// onTiDB contains the tests that do not run on TiDB and do not call OpenMySQL.
var onTiDB = map[string]string{
	"TestReadsDoNotGrowWithTheOrders":          counted,
	"TestPaidUnitsAreCheap":                    counted,
	"TestCommitDoesNotGrowWithOneBuyersOrders": counted,
	"TestUnmarkedReleaseIsNoDrift":             ordered,
	"TestNumberDoesNotWait":                    waits,
}

// notOnTiDB skips the test if the real database is a TiDB and why is not empty.
func notOnTiDB(tb testing.TB, why string) {
	tb.Helper()
	if why != "" && os.Getenv(servers.TiDBVariable) != "" {
		tb.Skip("not on TiDB: " + why)
	}
}

// OpenMySQL starts a MySQL that no other test uses, for the rest of the test. The test may
// kill and restart it.
func OpenMySQL(tb testing.TB, o servers.MySQLConfig) *servers.MySQL {
	tb.Helper()
	notOnTiDB(tb, killed)
	return started(tb, func(ctx context.Context) (*servers.MySQL, error) { return servers.StartMySQL(ctx, o) })
}
