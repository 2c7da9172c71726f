package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
)

// InnoDB may show a row before the log record of the row is synced to disk, so a crash can lose a
// row that was read. With a binary log, a crash cannot lose the row, but a failover can, if
// replicas acknowledge AFTER_COMMIT. An answer must not rest on a row that can be lost. Commits
// are synced in order: once a later write is durable, the row is durable, too. This later write
// is called a barrier.
//
// An answer that rests on a missing row needs a barrier as well. A primary that was replaced
// lacks rows of the new primary. It still answers reads but commits nothing, so a barrier after
// the read proves that the server had not been replaced. Only a barrier on the server of the
// read proves this, so the read and the barrier use one session.

// A read reads rows for an answer. Its queries must use db.
type read func(db *gorm.DB) (any, error)

// The lanes of reads. A slow read delays only reads of its own lane.
const (
	orderLane = "order" // reads of single orders
	pageLane  = "page"  // lists
	feedLane  = "feed"  // changes
)

// A result contains what a read has returned.
type result struct {
	value any
	err   error
}

const (
	maxReaders   = 20_000      // limits the memory that waiting callers use while the database hangs
	readPatience = time.Second // after this time a later read may begin on another connection
)

// newReads returns the group in which concurrent callers of durably share a barrier.
func (s *Store) newReads() *coalesce.Group[read, result] {
	return coalesce.New(coalesce.Config[read, result]{
		MaxCallers: maxReaders, MaxBatch: 32, MaxInFlight: 4, Timeout: s.Timeout,
		Patience: readPatience,
		Call: func(ctx context.Context, _ string, batch []*coalesce.Caller[read, result]) {
			reads := make([]read, len(batch)) // the reads may still be running when the call has ended
			for i, c := range batch {
				reads[i] = c.Q
			}
			results, err := readDurably(ctx, s, func(db *gorm.DB) ([]result, error) {
				results := make([]result, len(reads))
				for i, read := range reads {
					results[i].value, results[i].err = read(db)
					if err := ctx.Err(); err != nil || errors.Is(results[i].err, driver.ErrBadConn) {
						return nil, errors.Join(err, results[i].err)
					}
				}
				return results, nil
			})
			for i, c := range batch {
				if c.Err = err; err == nil {
					c.Answer = results[i]
				}
			}
		},
	})
}

// durably calls f, and returns its result once everything that f has read is durable. An
// answer that rests on rows that were only read, or on missing rows, uses durably. After a
// committed write of the same request it is not needed. On SQLite, durably only calls f.
//
// f may still be running after durably has returned an error, so it must only return what it
// has read. Errors: the errors of f, and ErrUnavailable if the rows may not be durable.
func durably[T any](ctx context.Context, s *Store, lane string, f func(db *gorm.DB) (T, error)) (found T, err error) {
	if s.sqlite {
		return f(s.DB.WithContext(ctx))
	}
	r, err := s.Reads.Do(ctx, lane, func(db *gorm.DB) (any, error) { return f(db) })
	if err != nil {
		return found, errors.Join(orders.ErrUnavailable, err)
	}
	return r.value.(T), r.err
}

// readDurably is durably for a caller that does not share its barrier.
func readDurably[T any](ctx context.Context, s *Store, f func(db *gorm.DB) (T, error)) (T, error) {
	found, err := onSession(ctx, s, func(db *gorm.DB) (T, error) {
		found, err := f(db)
		if err == nil {
			err = s.barrier(db)
		}
		return found, err
	})
	if err != nil {
		s.closeIdle()
		err = errors.Join(orders.ErrUnavailable, fmt.Errorf("wait until the rows read are durable: %w", err))
	}
	return found, err
}

// barrier writes a barrier, without a transaction, so that the row of the node is locked for
// one statement only. If the node has no row yet, the row gets an old seen_at, because a barrier
// is not a heartbeat.
func (s *Store) barrier(db *gorm.DB) error {
	if s.sqlite {
		return nil
	}
	return db.Exec("INSERT INTO nodes (id, seen_at, barrier) VALUES (?, '2000-01-01', 1)"+
		" ON DUPLICATE KEY UPDATE barrier = barrier + 1", s.Node).Error
}

// decideDurably runs f in a transaction. If its decisions write nothing, a barrier follows on
// the same session, because the decisions rest on rows that were only read.
func (s *Store) decideDurably(ctx context.Context, f func(tx *gorm.DB) ([][]orders.Decision, error)) ([][]orders.Decision, error) {
	return onSession(ctx, s, func(db *gorm.DB) (decisions [][]orders.Decision, err error) {
		err = db.Transaction(func(tx *gorm.DB) error {
			decisions, err = f(tx)
			return err
		})
		made := slices.Concat(decisions...)
		if err == nil && len(made) > 0 && !slices.ContainsFunc(made, orders.Decision.Writes) {
			err = s.barrier(db)
		}
		return decisions, err
	})
}

// Wait waits until no read and no transaction of withLockedSale is in progress, or ctx ends.
func (s *Store) Wait(ctx context.Context) error {
	return errors.Join(s.lookups.Wait(ctx), s.Reads.Wait(ctx), s.saleSteps.Wait(ctx))
}
