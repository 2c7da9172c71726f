package orders

import (
	"context"
	"math/rand/v2"
	"time"
)

// sweep closes overdue orders until ctx ends. Every node sweeps, under the
// database's clock; the jitter keeps them from coming all at once.
func (s *Service) sweep(ctx context.Context) error {
	for {
		pause := time.NewTimer(s.cfg.SweepEvery/2 + rand.N(s.cfg.SweepEvery))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
		for more := true; more && ctx.Err() == nil; {
			more = s.sweepOnce(ctx)
		}
	}
}

// sweepOnce closes one batch and tells whether there may be more.
func (s *Service) sweepOnce(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	expired, err := s.store.Expire(bounded)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Debug("sweep", "error", err)
	}
	for sku, n := range expired {
		s.keepers.count.Expired.Add(n)
		s.ended(ctx, sku)
	}
	return err == nil && len(expired) > 0
}
