package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings the schema to this program's version. Nodes that start
// together take turns. It returns how many migrations it applied. A schema
// newer than this program is an error.
func (s *Store) Migrate(ctx context.Context) (applied int, err error) {
	if s.sqlite {
		return s.migrateSQLite(ctx)
	}
	// Connections of their own: altering a large table takes longer than any
	// other statement may.
	db, err := s.openMySQL(s.dsn, Config{Connections: 2, patient: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to migrate: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := lockSchema(ctx, conn); err != nil {
		return 0, fmt.Errorf("lock the schema: %w", err)
	}
	if err := enforceChecks(ctx, conn); err != nil {
		return 0, fmt.Errorf("have CHECKs enforced: %w", err)
	}
	return s.migrate(ctx, db)
}

// migrateSQLite does without a lock. A migration of SQLite is one transaction:
// of two that come at once one fails as a whole, looks again, and finds it done.
func (s *Store) migrateSQLite(ctx context.Context) (int, error) {
	for attempt := 1; ; attempt++ {
		applied, err := s.migrate(ctx, s.sql)
		if err == nil || errors.Is(err, errNewerSchema) || attempt == 10 || ctx.Err() != nil {
			return applied, err
		}
	}
}

var errNewerSchema = errors.New("start a newer program")

func (s *Store) migrate(ctx context.Context, db *sql.DB) (int, error) {
	folder, dialect := "migrations/mysql", goose.DialectMySQL
	if s.sqlite {
		folder, dialect = "migrations/sqlite", goose.DialectSQLite3
	}
	files, err := fs.Sub(migrations, folder)
	if err != nil {
		return 0, err
	}
	provider, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, err
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	if have > want {
		return 0, fmt.Errorf("the database's schema has version %d, this program knows versions up to %d: %w", have, want, errNewerSchema)
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return len(applied), fmt.Errorf("migrate: %w", err)
	}
	return len(applied), nil
}

// schemaLockWait is how long a node waits for another one's migrations, seconds.
const schemaLockWait = 60

// lockSchema takes MySQL's GET_LOCK. It is the session's, and ends with it.
func lockSchema(ctx context.Context, conn *sql.Conn) error {
	// The session is silent while others migrate, for longer than the usual bound.
	if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout = 600"); err != nil {
		return err
	}
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('flashsale migrate ', DATABASE()), ?)", schemaLockWait).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = fmt.Errorf("another node has been migrating for %d s", schemaLockWait)
	}
	return err
}
