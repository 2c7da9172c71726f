package store

import (
	"context"
	"errors"
	"fmt"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
)

// InnoDB may show a row before the log record of the row is synced to disk, so a crash can lose
// a row that was read. With a binary log, only a failover can, if replicas acknowledge
// AFTER_COMMIT. An answer must not rest on such a row. Commits are synced in order: once a later
// write is durable, the row is durable, too.

// newBarrier returns the group in which concurrent callers of Barrier share one write. The
// write begins after each of them has read its rows.
func (s *Store) newBarrier() *coalesce.Group[struct{}, struct{}] {
	const callers = 20_000 // a limit for memory only
	return coalesce.New(coalesce.Config[struct{}, struct{}]{
		MaxCallers: callers, MaxBatch: callers, Timeout: s.Timeout,
		Call: func(ctx context.Context, _ string, batch []*coalesce.Caller[struct{}, struct{}]) {
			// If the node has no row yet, it gets an old seen_at, because a barrier is not a
			// heartbeat.
			err := retryContended(ctx, func() error {
				return s.DB.WithContext(ctx).Exec("INSERT INTO nodes (id, seen_at, barrier) VALUES (?, '2000-01-01', 1)"+
					" ON DUPLICATE KEY UPDATE barrier = barrier + 1", s.Node).Error
			})
			for _, c := range batch {
				c.Err = err
			}
		},
	})
}

// Barrier waits until everything that this process has read from the database is durable. An
// answer must wait for a barrier if it rests on a row that was only read. After a committed
// write of the same request no barrier is needed. SQLite needs none.
//
// An answer that rests on a missing row must wait as well. A primary that was replaced lacks
// rows of the new primary. It still answers reads but commits nothing, so a barrier after the
// read proves that the server had not been replaced.
//
// Error: ErrUnavailable. The caller must then not use what it has read.
func (s *Store) Barrier(ctx context.Context) error {
	if s.sqlite {
		return nil
	}
	if _, err := s.Barriers.Do(ctx, "", struct{}{}); err != nil {
		return errors.Join(orders.ErrUnavailable, fmt.Errorf("wait until the rows read are durable: %w", err))
	}
	return nil
}

// Wait waits until no barrier and no ending is in progress, or ctx ends.
func (s *Store) Wait(ctx context.Context) error {
	return errors.Join(s.Barriers.Wait(ctx), s.endings.Wait(ctx))
}

// confirm waits for a barrier if the transaction of these decisions has written nothing. The
// decisions then rest on rows that were only read. A commit with writes is itself a barrier.
func (s *Store) confirm(ctx context.Context, batches ...[]orders.Decision) error {
	for _, decisions := range batches {
		for _, d := range decisions {
			if d.Action != orders.NoChange || d.Hold == orders.ReconfirmHold {
				return nil
			}
		}
	}
	return s.Barrier(ctx)
}
