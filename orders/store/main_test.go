package store

import (
	"testing"

	"flashsale/loadtest/servers/servertest"
	"flashsale/orders/internal/kit"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// openStore returns a migrated store on sql.
func openStore(t testing.TB, sql string) *Store {
	t.Helper()
	store, err := Open(sql, StoreConfig{})
	kit.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	kit.Must(t, kit.Err(store.Migrate(t.Context())))
	return store
}
