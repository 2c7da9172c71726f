package store

import (
	"context"
	"errors"
	"fmt"

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
// read proves this, so the read and the barrier are one transaction.

// A read reads rows for an answer. Its queries must use db.
type read func(db *gorm.DB) (any, error)

// The lanes of reads. A slow read delays only reads of its own lane.
const (
	catalogLane = "catalog" // reads that renew the lease of a node's copy
	orderLane   = "order"   // reads of single orders
	pageLane    = "page"    // lists
)

// A result contains what a read has returned.
type result struct {
	value any
	err   error
}

// maxReaders limits the memory that waiting callers use while the database hangs.
const maxReaders = 20_000

// newReads returns the group in which concurrent callers of confirmed share a transaction.
func (s *Store) newReads() *coalesce.Group[read, result] {
	return coalesce.New(coalesce.Config[read, result]{
		MaxCallers: maxReaders, MaxBatch: 100, Timeout: s.Timeout,
		Patience: CatalogLease, // a later read may use a better connection
		Call: func(ctx context.Context, _ string, batch []*coalesce.Caller[read, result]) {
			results, err := transact(ctx, s, func(tx *gorm.DB) ([]result, error) {
				results := make([]result, len(batch))
				for i, c := range batch {
					results[i].value, results[i].err = c.Q(tx)
				}
				return results, s.barrier(tx)
			})
			if err != nil {
				s.closeIdle()
			}
			for i, c := range batch {
				if c.Err = err; err == nil {
					c.Answer = results[i]
				}
			}
		},
	})
}

// confirmed calls f, and returns its result once everything that f has read is durable. An
// answer that rests on rows that were only read, or on missing rows, uses confirmed. After a
// committed write of the same request it is not needed. On SQLite, confirmed only calls f.
//
// f may still be running after confirmed has returned an error, so it must only return what it
// has read. Errors: the errors of f, and ErrUnavailable if the rows may not be durable.
func confirmed[T any](ctx context.Context, s *Store, lane string, f func(db *gorm.DB) (T, error)) (found T, err error) {
	if s.sqlite {
		return f(s.DB.WithContext(ctx))
	}
	r, err := s.Reads.Do(ctx, lane, func(db *gorm.DB) (any, error) { return f(db) })
	if err != nil {
		return found, errors.Join(orders.ErrUnavailable, fmt.Errorf("wait until the rows read are durable: %w", err))
	}
	return r.value.(T), r.err
}

// barrier writes a barrier in tx. If the node has no row yet, the row gets an old seen_at,
// because a barrier is not a heartbeat.
func (s *Store) barrier(tx *gorm.DB) error {
	return tx.Exec("INSERT INTO nodes (id, seen_at, barrier) VALUES (?, '2000-01-01', 1)"+
		" ON DUPLICATE KEY UPDATE barrier = barrier + 1", s.Node).Error
}

// confirm writes a barrier if the transaction of these decisions writes nothing else.
func (s *Store) confirm(tx *gorm.DB, batches ...[]orders.Decision) error {
	for _, decisions := range batches {
		for _, d := range decisions {
			if d.Action != orders.NoChange || d.Hold == orders.ReconfirmHold {
				return nil
			}
		}
	}
	if s.sqlite {
		return nil
	}
	return s.barrier(tx)
}

// Wait waits until no read and no ending is in progress, or ctx ends.
func (s *Store) Wait(ctx context.Context) error {
	return errors.Join(s.Reads.Wait(ctx), s.endings.Wait(ctx))
}
