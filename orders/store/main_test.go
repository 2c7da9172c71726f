package store

import (
	"testing"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// openStore returns a migrated store on sql.
func openStore(t testing.TB, sql string) *Store {
	t.Helper()
	store, err := Open(sql, Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	check.Must(t, check.Err(store.Migrate(t.Context())))
	return store
}
