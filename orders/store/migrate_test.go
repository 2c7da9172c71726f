package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// unmigrated opens a store whose schema nobody has made yet.
func unmigrated(t *testing.T, sql string) *Store {
	t.Helper()
	store, err := Open(sql, Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// tables are the names of all tables' columns, in order.
func tables(t *testing.T, store *Store) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range []string{"sales", "orders", "nodes", "refunds"} {
		all[table] = columns(t, store, table)
	}
	return all
}

func columns(t *testing.T, store *Store, table string) []string {
	t.Helper()
	rows, err := store.sql.QueryContext(t.Context(), "SELECT * FROM "+table+" WHERE 1 = 0")
	check.Must(t, err)
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil || rows.Err() != nil {
		t.Fatal(err, rows.Err())
	}
	return names
}

// A second run finds nothing to do.
func TestMigrateTwice(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := unmigrated(t, sql)
		for i, want := range []bool{true, false, false} {
			n, err := store.Migrate(t.Context())
			if err != nil || (n > 0) != want {
				t.Errorf("run %d: %d applied, %v", i, n, err)
			}
		}
		check.OK(t, check.Err(store.PutSale(t.Context(), kit.Sale("S", 1, 1))))
	})
}

// Nodes that start together take turns.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		var all sync.WaitGroup
		var mu sync.Mutex
		applied := 0
		for range 4 {
			store := unmigrated(t, sql)
			all.Go(func() {
				n, err := store.Migrate(t.Context())
				mu.Lock()
				defer mu.Unlock()
				applied += n
				check.OK(t, err)
			})
		}
		all.Wait()
		if n, err := unmigrated(t, sql).Migrate(t.Context()); err != nil || n != 0 || applied == 0 {
			t.Errorf("%d applied by all, then %d, %v", applied, n, err)
		}
	})
}

// A schema from the future is not touched, and said so.
func TestMigrateNewerSchema(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		kit.Exec(t, store.DB, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)")
		if n, err := store.Migrate(t.Context()); err == nil || n != 0 || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "newer program") {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// A migration that was killed half-way starts over.
func TestMigrateAfterACrash(t *testing.T) {
	store := unmigrated(t, servertest.OpenSQL(t, servers.KindReal))
	text, err := migrations.ReadFile("migrations/mysql/00001_schema.sql")
	check.Must(t, err)
	_, up, _ := strings.Cut(string(text), "-- +goose Up")
	first, _, _ := strings.Cut(up, ";\n\nCREATE TABLE")
	kit.Exec(t, store.DB, first) // and it died
	if n, err := store.Migrate(t.Context()); err != nil || n == 0 {
		t.Errorf("%d, %v", n, err)
	}
	tables(t, store)
}

// So does one that was killed between its last statement and the note that it
// is done.
func TestMigrateWithoutTheNote(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindReal))
	before := fmt.Sprint(tables(t, store))
	kit.Exec(t, store.DB, "DELETE FROM goose_db_version WHERE version_id >= 1")
	if n, err := store.Migrate(t.Context()); err != nil || n == 0 {
		t.Errorf("%d, %v", n, err)
	}
	if after := fmt.Sprint(tables(t, store)); after != before {
		t.Errorf("columns were %s, are %s", before, after)
	}
}

// Both databases have the same tables, and gorm's models name their columns.
func TestSchemasAgree(t *testing.T) {
	embedded := tables(t, openStore(t, servertest.OpenSQL(t, servers.KindEmbedded)))
	real := tables(t, openStore(t, servertest.OpenSQL(t, servers.KindReal)))
	if fmt.Sprint(embedded) != fmt.Sprint(real) {
		t.Errorf("SQLite has\n%v, MySQL\n%v", embedded, real)
	}
	store := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded))
	for table, model := range map[string]any{"sales": &orders.Sale{}, "orders": &orders.Order{}, "nodes": &Node{}, "refunds": &orders.Claim{}} {
		statement := store.DB.Model(model).Statement
		check.Must(t, statement.Parse(model))
		got, want := slices.Sorted(slices.Values(statement.Schema.DBNames)), slices.Sorted(slices.Values(real[table]))
		if !slices.Equal(got, want) {
			t.Errorf("%s: the model has %v, the table %v", table, got, want)
		}
	}
}

// What the schema itself forbids, whatever the program does.
func TestSchemaGuards(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 2)
		kit.Exec(t, store.DB, "UPDATE orders SET idempotency_key = 'k', buyer = 'ann' WHERE id = ?", ids[0])
		for name, statement := range map[string]string{
			"oversold":       "UPDATE sales SET sold = total + 1",
			"below zero":     "UPDATE sales SET sold = -1",
			"cut too deep":   "UPDATE sales SET total = sold - 1",
			"key used":       "UPDATE orders SET idempotency_key = 'k', buyer = 'ann' WHERE id = '" + ids[1] + "'",
			"id used":        "UPDATE orders SET id = '" + ids[0] + "' WHERE id = '" + ids[1] + "'",
			"no status":      "UPDATE orders SET status = NULL",
			"buyer's length": "UPDATE orders SET buyer = '" + strings.Repeat("x", 65) + "' WHERE id = '" + ids[1] + "'",
		} {
			if err := store.DB.Exec(statement).Error; !IsBadData(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Two orders without a key are not two under one key.
		kit.Exec(t, store.DB, "UPDATE orders SET idempotency_key = NULL, buyer = 'ann'")
	})
}

// A connection may be silent for no longer than the DSN says. A migration may:
// one waits for another node's, and altering a large table says nothing either.
func TestMigrationsMayBeSilent(t *testing.T) {
	t.Parallel()
	dsn := servertest.OpenSQL(t, servers.KindReal)
	other := unmigrated(t, dsn)
	conn, err := other.sql.Conn(t.Context())
	check.Must(t, err)
	check.Must(t, lockSchema(t.Context(), conn))
	const silence = 300 * time.Millisecond
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	store := unmigrated(t, fmt.Sprint(dsn, separator, "readTimeout=", silence))
	began := time.Now()
	time.AfterFunc(3*silence, func() { _ = conn.Close(); _ = other.Close() }) // the lock ends with the session
	if n, err := store.Migrate(t.Context()); n == 0 || err != nil || time.Since(began) < 2*silence {
		t.Errorf("%d applied after %v, %v", n, time.Since(began), err)
	}
	if err := store.DB.WithContext(t.Context()).Exec("DO SLEEP(20)").Error; err == nil {
		t.Error("a silent statement has not been ended")
	}
}
