package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
)

// A Fence issues fencing tokens in the database that is written under the lock. The table
// has one row per key, whose number increases with each holder. The token is as durable as
// the data that it protects. Only the last caller of Raise may write, even if the lock fails.
type Fence struct{ db *sql.DB }

var _ fence.Issuer = (*Fence)(nil)

// FenceTable is the statement that creates the table of a Fence.
const FenceTable = `CREATE TABLE IF NOT EXISTS lock_fences (
	name  CHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
	fence BIGINT NOT NULL
)`

// ErrFenced means that a later holder has raised the fence.
var ErrFenced = errors.New("mysql: fenced off by a later holder")

// NewFence returns a Fence on db, which must have the table of FenceTable.
func NewFence(db *sql.DB) *Fence { return &Fence{db} }

// Raise implements fence.Issuer. After its commit, Check rejects all earlier tokens.
func (f *Fence) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", l.Key(), err)
	}
	defer func() { _ = tx.Rollback() }()
	var fence int64
	_, err = tx.ExecContext(ctx, "INSERT INTO lock_fences (name, fence) VALUES (?, 1) ON DUPLICATE KEY UPDATE fence = fence + 1", name(l.Key()))
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT fence FROM lock_fences WHERE name = ?", name(l.Key())).Scan(&fence)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", l.Key(), err)
	}
	return fence, nil
}

// Check must be the first statement of each transaction that writes under the lock. It
// returns ErrFenced if the fence has been raised after token was issued. Otherwise it locks
// the row, so that the fence cannot be raised before the transaction ends.
func (f *Fence) Check(ctx context.Context, tx *sql.Tx, key string, token int64) error {
	var fence int64
	err := tx.QueryRowContext(ctx, "SELECT fence FROM lock_fences WHERE name = ? FOR UPDATE", name(key)).Scan(&fence)
	if err != nil {
		return fmt.Errorf("check the fence of %q: %w", key, err)
	}
	if fence != token {
		return fmt.Errorf("%w: %q is at %d, not at %d", ErrFenced, key, fence, token)
	}
	return nil
}
