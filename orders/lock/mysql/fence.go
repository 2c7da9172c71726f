package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
)

// A Fence issues fencing tokens in the database that is written under the lock:
// a row per key, whose number goes up with each holder. It is as durable as what
// it guards, and needs no lock to be right: whoever raised it last may write.
//
// In this project orders.Store does the same with the column sales.fence.
type Fence struct{ db *sql.DB }

var _ fence.Issuer = (*Fence)(nil)

// FenceTable is the table that a Fence needs.
const FenceTable = `CREATE TABLE IF NOT EXISTS lock_fences (
	name  CHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
	fence BIGINT NOT NULL
)`

// ErrFenced is returned when a later holder has raised the fence.
var ErrFenced = errors.New("mysql: fenced off by a later holder")

// NewFence returns a Fence on db, which has FenceTable.
func NewFence(db *sql.DB) *Fence { return &Fence{db} }

// Raise is the Fence's: from its commit on, no smaller token can write.
func (f *Fence) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("raise fence of %q: %w", l.Key(), err)
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
		return 0, fmt.Errorf("raise fence of %q: %w", l.Key(), err)
	}
	return fence, nil
}

// Check is the first statement of a transaction that writes under the lock: it
// returns ErrFenced if the fence has been raised since, and else keeps others
// from raising it until the transaction has ended.
func (f *Fence) Check(ctx context.Context, tx *sql.Tx, key string, token int64) error {
	var fence int64
	err := tx.QueryRowContext(ctx, "SELECT fence FROM lock_fences WHERE name = ? FOR UPDATE", name(key)).Scan(&fence)
	if err != nil {
		return fmt.Errorf("check fence of %q: %w", key, err)
	}
	if fence != token {
		return fmt.Errorf("%w: %q is at %d, not at %d", ErrFenced, key, fence, token)
	}
	return nil
}
