package lease

import (
	"context"
	"time"
)

// Hooks are functions for metrics and traces. Each may be nil. A hook must not block,
// because renewals may be waiting for it.
type Hooks struct {
	// Waiting is called when an Acquire begins to wait for another holder, at most once
	// per Acquire.
	Waiting func(ctx context.Context, key string)
	// Acquired is called when the lock is held; after is the time since the call began.
	// The ctx of this and the following hooks is Lock.Context, which has the values of
	// the caller's context.
	Acquired func(ctx context.Context, key string, after time.Duration)
	// Renewed is called after a renewal. If the renewal received no answer, err is the
	// failure. If the lock is lost, Lost is called instead.
	Renewed func(ctx context.Context, key string, err error)
	// Lost is called after the lock's context has ended with cause, which wraps ErrLost.
	Lost func(ctx context.Context, key string, cause error)
	// Released is called when Release has its final outcome, err. held is the time since
	// Acquired, even if the lock was lost before the release.
	Released func(ctx context.Context, key string, held time.Duration, err error)
}
