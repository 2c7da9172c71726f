// Package nap waits for a duration or for the end of a context.
package nap

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. If ctx ends first, it returns the cause of ctx.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Jitter returns a random duration from 0 up to d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
