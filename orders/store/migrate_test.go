package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// unmigrated opens a store without creating the schema.
func unmigrated(t *testing.T, sql string) *Store {
	t.Helper()
	store, err := Open(sql, Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// tables returns the names of the columns of each table, in order.
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
		t.Fatalf("read the columns: got error %v and %v, want none", err, rows.Err())
	}
	return names
}

func TestMigrateTwice(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := unmigrated(t, sql)
		for i, want := range []bool{true, false, false} {
			n, err := store.Migrate(t.Context())
			if err != nil || (n > 0) != want {
				t.Errorf("run %d: got %d migrations, error %v, want some: %v", i, n, err, want)
			}
		}
		check.OK(t, check.Err(store.PutSale(t.Context(), kit.Sale("S", 1, 1))))
	})
}

func TestMigrateConcurrently(t *testing.T) {
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
			t.Errorf("migrations: got %d, then %d, error %v, want some, then 0", applied, n, err)
		}
	})
}

// A schema that is newer than the program is an error and is not changed.
func TestMigrateNewerSchema(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		kit.Exec(t, store.DB, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)")
		if n, err := store.Migrate(t.Context()); err == nil || n != 0 || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "newer program") {
			t.Errorf("Migrate: got %d, error %v, want an error with the version", n, err)
		}
	})
}

// A migration continues after the process was killed between two statements.
func TestMigrateAfterACrash(t *testing.T) {
	store := unmigrated(t, servertest.OpenSQL(t, servers.KindReal))
	text, err := migrations.ReadFile("migrations/mysql/00001_schema.sql")
	check.Must(t, err)
	_, up, _ := strings.Cut(string(text), "-- +goose Up")
	first, _, _ := strings.Cut(up, ";\n\n")
	kit.Exec(t, store.DB, first)
	if n, err := store.Migrate(t.Context()); err != nil || n == 0 {
		t.Errorf("Migrate: got %d, error %v, want some migrations", n, err)
	}
	tables(t, store)
}

// A migration is repeated if the process was killed before it recorded the new version.
func TestMigrateAfterAnUnrecordedRun(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindReal))
	before := fmt.Sprint(tables(t, store))
	kit.Exec(t, store.DB, "DELETE FROM goose_db_version WHERE version_id >= 1")
	if n, err := store.Migrate(t.Context()); err != nil || n == 0 {
		t.Errorf("Migrate: got %d, error %v, want some migrations", n, err)
	}
	if after := fmt.Sprint(tables(t, store)); after != before {
		t.Errorf("columns: got %s, want %s", after, before)
	}
}

// A database that was created before a column was added to the first migration is refused. The
// error contains the statement that adds the column.
func TestMigrateRefusesMissingColumns(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindReal))
	kit.Exec(t, store.DB, "ALTER TABLE orders DROP COLUMN hold_id")
	_, err := store.Migrate(t.Context())
	_, add, _ := strings.Cut(fmt.Sprint(err), "then run: ")
	if want := "ALTER TABLE orders ADD COLUMN hold_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL"; add != want {
		t.Fatalf("Migrate without the column hold_id: got error %v, want one that ends with %q", err, want)
	}
	kit.Exec(t, store.DB, add)
	check.OK(t, check.Err(store.Migrate(t.Context())))
}

// Nodes of the previous version sell while a migration runs and afterwards, until they are replaced.
// Therefore later migrations only add, and inserts that lack a new column succeed.
func TestMigrationsOnlyAdd(t *testing.T) {
	changes := regexp.MustCompile(`(?i)\b(?:DROP|RENAME|MODIFY|CHANGE) +(?:COLUMN|TABLE|INDEX|TO)|\b(?:ADD|CREATE) (?:CONSTRAINT|UNIQUE|CHECK)|ADD COLUMN [^;']*NOT NULL`)
	names, err := filepath.Glob("migrations/*/*.sql")
	check.Must(t, err)
	for _, name := range names {
		text, err := migrations.ReadFile(name)
		check.Must(t, err)
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		if found := changes.FindString(up); found != "" && !strings.Contains(name, "/00001_") || len(names) < 4 {
			t.Errorf("migration %s, one of %d: got %q, want four or more that only add columns that may be NULL", name, len(names), found)
		}
	}
}

// The first migration does not change any more, because databases have recorded it as applied. A
// change of the schema is a new file. Comments may change.
func TestFirstMigrationIsFrozen(t *testing.T) {
	for file, want := range map[string]string{
		"migrations/mysql/00001_schema.sql":  "3425f871f175b175",
		"migrations/sqlite/00001_schema.sql": "c55ff622d64da24f",
	} {
		text, err := migrations.ReadFile(file)
		check.Must(t, err)
		statements := regexp.MustCompile(`--.*|\s+`).ReplaceAll(text, nil)
		if got := fmt.Sprintf("%x", sha256.Sum256(statements))[:16]; got != want {
			t.Errorf("checksum of the statements of %s: got %s, want %s; write a new migration instead", file, got, want)
		}
	}
}

// MySQL and SQLite have the same tables, and gorm's models have the same columns.
func TestSchemasAgree(t *testing.T) {
	embedded := tables(t, openStore(t, servertest.OpenSQL(t, servers.KindEmbedded)))
	real := tables(t, openStore(t, servertest.OpenSQL(t, servers.KindReal)))
	if fmt.Sprint(embedded) != fmt.Sprint(real) {
		t.Errorf("tables of SQLite: got\n%v, want those of MySQL\n%v", embedded, real)
	}
	store := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded))
	for table, model := range map[string]any{"sales": &orders.Sale{}, "orders": &orders.Order{}, "nodes": &Node{}, "refunds": &orders.Claim{}} {
		statement := store.DB.Model(model).Statement
		check.Must(t, statement.Parse(model))
		got, want := slices.Sorted(slices.Values(statement.Schema.DBNames)), slices.Sorted(slices.Values(real[table]))
		want = slices.DeleteFunc(want, func(column string) bool { return column == "change_no" }) // only changes.go uses it
		if !slices.Equal(got, want) {
			t.Errorf("columns of the model of %s: got %v, want %v", table, got, want)
		}
	}
}

// The schema rejects wrong data, even if the program is wrong.
func TestSchemaGuards(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 2)
		kit.Exec(t, store.DB, "UPDATE orders SET idempotency_key = 'k', buyer = 'ann' WHERE id = ?", ids[0])
		for name, statement := range map[string]string{
			"oversold":       "UPDATE sales SET sold = total + 1",
			"sold below 0":   "UPDATE sales SET sold = -1",
			"total too low":  "UPDATE sales SET total = sold - 1",
			"key used":       "UPDATE orders SET idempotency_key = 'k', buyer = 'ann' WHERE id = '" + ids[1] + "'",
			"id used":        "UPDATE orders SET id = '" + ids[0] + "' WHERE id = '" + ids[1] + "'",
			"no status":      "UPDATE orders SET status = NULL",
			"buyer's length": "UPDATE orders SET buyer = '" + strings.Repeat("x", 65) + "' WHERE id = '" + ids[1] + "'",
		} {
			if err := store.DB.Exec(statement).Error; !IsBadData(err) {
				t.Errorf("bad data, %s: got error %v, want an error of the data", name, err)
			}
		}
		// Any number of orders may have no key.
		kit.Exec(t, store.DB, "UPDATE orders SET idempotency_key = NULL, buyer = 'ann'")
	})
}

// The readTimeout of a DSN does not apply to migrations, which may wait for another node or
// alter a large table.
func TestMigrationsHaveNoReadTimeout(t *testing.T) {
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
	time.AfterFunc(3*silence, func() { _ = conn.Close(); _ = other.Close() }) // the end of the session releases the lock
	if n, err := store.Migrate(t.Context()); n == 0 || err != nil || time.Since(began) < 2*silence {
		t.Errorf("Migrate: got %d, error %v after %v, want some migrations after %v or later", n, err, time.Since(began), 2*silence)
	}
	if err := store.DB.WithContext(t.Context()).Exec("DO SLEEP(20)").Error; err == nil {
		t.Error("statement of 20 s: got no error, want a read timeout")
	}
}

// On a server without GET_LOCK, such as a strict Percona XtraDB Cluster, a program starts if the
// schema is up to date. Otherwise it migrates nothing.
func TestMigrateWithoutGetLock(t *testing.T) {
	t.Parallel()
	cfg, err := mysql.ParseDSN(servertest.OpenSQL(t, servers.KindReal))
	check.Must(t, err)
	direct := cfg.FormatDSN()
	cfg.Addr = withoutGetLock(t, cfg.Addr)
	if n, err := unmigrated(t, cfg.FormatDSN()).Migrate(t.Context()); n != 0 || err == nil || !strings.Contains(err.Error(), "lock schema") {
		t.Errorf("Migrate of an empty database: got %d, error %v, want an error of the lock", n, err)
	}
	openStore(t, direct)
	if n, err := unmigrated(t, cfg.FormatDSN()).Migrate(t.Context()); n != 0 || err != nil {
		t.Errorf("Migrate of a current schema: got %d, error %v, want 0", n, err)
	}
}

// withoutGetLock returns the address of a proxy for the server at target. The server does not know
// the name that the proxy sends instead of GET_LOCK.
func withoutGetLock(t *testing.T, target string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
			go func() {
				defer server.Close()
				sent := make([]byte, 64<<10)
				for {
					n, err := client.Read(sent)
					if err != nil {
						return
					}
					_, _ = server.Write(bytes.ReplaceAll(sent[:n], []byte("GET_LOCK("), []byte("GET_L0CK(")))
				}
			}()
		}
	}()
	return listener.Addr().String()
}
