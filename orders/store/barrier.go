package store

import (
	"context"
	"errors"
	"fmt"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
)

// InnoDB lets others read a row before the log that holds it is synced: always
// without a binary log, and with one after a failover where replicas acknowledge
// AFTER_COMMIT. So a row that was only read may be gone after a crash, and nobody
// may hear "yes" because of it. A write that is committed later than that row is
// synced later, too: once it is, so is the row.

// newBarrier has the callers of one moment share a write. It begins after each of
// them has read what it is about to answer.
func (s *Store) newBarrier() *coalesce.Group[struct{}, struct{}] {
	const callers = 20_000 // who read at once: it bounds nothing but memory
	return coalesce.New(coalesce.Config[struct{}, struct{}]{
		Callers: callers, Batch: callers, Timeout: s.Timeout,
		Call: func(ctx context.Context, _ string, batch []*coalesce.Caller[struct{}, struct{}]) {
			// A row made here looks like that of a node long gone, until the node's
			// heartbeat comes by: a barrier is no sign of life.
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

// Barrier returns once everything that this process has read from the database is
// durable. An answer waits for a barrier if it rests on a row that was only read. An
// answer that follows its caller's own committed write needs no barrier, nor does SQLite.
//
// An answer that rests on a missing row waits for a barrier as well. A replaced primary
// lacks rows that the new primary has. It still answers reads but commits nothing, so a
// barrier after the read proves that the server had not been replaced by then.
//
// Error: ErrUnavailable. The caller must then not answer with what was read.
func (s *Store) Barrier(ctx context.Context) error {
	if s.sqlite {
		return nil
	}
	if _, err := s.Barriers.Do(ctx, "", struct{}{}); err != nil {
		return errors.Join(orders.ErrUnavailable, fmt.Errorf("wait until what was read is durable: %w", err))
	}
	return nil
}

// Wait waits until no barrier and no ending is in progress, or ctx ends.
func (s *Store) Wait(ctx context.Context) error {
	return errors.Join(s.Barriers.Wait(ctx), s.endings.Wait(ctx))
}

// confirm waits for a barrier if the transaction has written nothing, because its decisions
// then rest on rows that were only read. The commit of a transaction that has written
// something is a barrier itself.
func (s *Store) confirm(ctx context.Context, batches ...[]orders.Decision) error {
	for _, decisions := range batches {
		for _, d := range decisions {
			if d.Action != orders.Find || d.Hold == orders.Reconfirm {
				return nil
			}
		}
	}
	return s.Barrier(ctx)
}
