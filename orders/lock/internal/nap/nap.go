// Package nap waits.
package nap

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d, or until ctx ends, and returns its cause then.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Jitter is a random part of d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
