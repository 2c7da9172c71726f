package lease

import (
	"context"
	"time"
)

// Hooks are called when something happens, for metrics and traces. Each may be nil.
// None may block: a renewal may be waiting for it.
type Hooks struct {
	// Waiting: someone else holds the lock, and an Acquire begins to wait. It is
	// called at most once per Acquire.
	Waiting func(ctx context.Context, key string)
	// Acquired: the lock is held, after so long. Here and below ctx is Lock.Context,
	// which has the values of the caller's context.
	Acquired func(ctx context.Context, key string, after time.Duration)
	// Renewed: the lease was renewed, or, with err, a renewal got no answer. A lock
	// that a renewal finds lost is reported by Lost.
	Renewed func(ctx context.Context, key string, err error)
	// Lost: the lock's context has ended with this cause, which wraps ErrLost.
	Lost func(ctx context.Context, key string, cause error)
	// Released: Release has its final outcome, err. held is the time since Acquired,
	// even if the lock was lost in between.
	Released func(ctx context.Context, key string, held time.Duration, err error)
}
