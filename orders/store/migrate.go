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

// Migrate brings the schema to this program's version, and returns the number of migrations
// that it applied. Nodes that start at the same time take turns. A schema that is newer than
// this program, or lacks a column, is an error.
func (s *Store) Migrate(ctx context.Context) (applied int, err error) {
	if s.sqlite {
		return s.migrateSQLite(ctx)
	}
	// Altering a large table may take longer than the read timeout of the other connections.
	db, err := s.openMySQL(s.dsn, Config{Connections: 2, noReadTimeout: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to migrate: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := checkPacket(ctx, conn); err != nil {
		return 0, err
	}
	unlocked := wrap(lockSchema(ctx, conn), "lock schema")
	if unlocked != nil && !isServerError(unlocked) {
		return 0, unlocked
	}
	if err := enforceChecks(ctx, conn); err != nil {
		return 0, fmt.Errorf("enable CHECK constraints: %w", err)
	}
	return s.migrate(ctx, db, unlocked)
}

// leastPacket is the smallest max_allowed_packet that a batch of orders fits into, in bytes. A
// session cannot change the variable.
const leastPacket = 1 << 20

func checkPacket(ctx context.Context, conn *sql.Conn) error {
	var packet int64
	err := conn.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&packet)
	if err == nil && packet < leastPacket {
		err = fmt.Errorf("max_allowed_packet is %d, and a batch of orders needs %d: raise it on the server", packet, leastPacket)
	}
	return err
}

// migrateSQLite needs no lock. A migration of SQLite is one transaction. If two run at the
// same time, one fails, is repeated, and finds the schema up to date.
func (s *Store) migrateSQLite(ctx context.Context) (int, error) {
	for attempt := 1; ; attempt++ {
		applied, err := s.migrate(ctx, s.sql, nil)
		if err == nil || errors.Is(err, errNewerSchema) || attempt == 10 || ctx.Err() != nil {
			return applied, err
		}
	}
}

var errNewerSchema = errors.New("start a newer program")

// migrate applies the migrations that are missing. If unlocked is not nil, the server has no
// GET_LOCK, and migrate returns unlocked instead of applying a migration, because two nodes could
// apply it at the same time.
func (s *Store) migrate(ctx context.Context, db *sql.DB, unlocked error) (int, error) {
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
		return 0, fmt.Errorf("schema version %d is newer than version %d of this program: %w", have, want, errNewerSchema)
	}
	if unlocked != nil && have < want {
		return 0, unlocked
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return len(applied), fmt.Errorf("migrate: %w", err)
	}
	return len(applied), s.checkColumns(ctx, "", models...)
}

// schemaLockWait is the maximum time in seconds to wait for the migrations of another node.
const schemaLockWait = 60

// lockSchema acquires a named lock of MySQL, which is released when the session ends.
func lockSchema(ctx context.Context, conn *sql.Conn) error {
	// The session is idle while the migrations run on another connection.
	if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout = 600"); err != nil {
		return err
	}
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(LEFT(CONCAT('flashsale migrate ', DATABASE()), 64), ?)", schemaLockWait).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = fmt.Errorf("another node has held the lock of the schema for %d s", schemaLockWait)
	}
	return err
}
