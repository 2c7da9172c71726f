package shop

import (
	"context"
	"math/rand/v2"
	"time"
)

// sweep closes overdue orders until ctx ends. Every node sweeps, and the database's clock
// decides which orders are overdue. The random pause keeps the nodes from sweeping at the same
// moment.
func (s *Service) sweep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.cfg.SweepEvery/2 + rand.N(s.cfg.SweepEvery)):
		}
		for more := true; more && ctx.Err() == nil; {
			var err error
			more, err = s.sweepOnce(ctx)
			s.controller.Loops["sweeper"].Record(ctx, err)
		}
	}
}

// sweepOnce closes one batch of each SKU, and reports whether more orders may be overdue.
func (s *Service) sweepOnce(ctx context.Context) (more bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, 2*s.store.Timeout)
	defer cancel()
	expired, err := s.store.Expire(bounded)
	for sku, n := range expired {
		s.controller.Counters().Expired.Add(n)
		s.controller.RequestRelease(ctx, sku)
	}
	return err == nil && len(expired) > 0, err
}
