package lease

import (
	"context"
	"time"
)

// Hooks are called when something happens, for metrics and traces. Each may be
// nil, and must not block: a renewal may be waiting for it.
type Hooks struct {
	// Waiting: someone else holds the lock, and an Acquire goes on to wait. It is
	// called once per Acquire.
	Waiting func(ctx context.Context, key string)
	// Acquired: the lock is held, after so long. ctx is that of the lock, with
	// the values of the caller's.
	Acquired func(ctx context.Context, key string, after time.Duration)
	// Renewed: the lease was renewed, or that got no answer (err). A lock that
	// renewal finds lost is reported by Lost.
	Renewed func(ctx context.Context, key string, err error)
	// Lost: the lock's context has ended with this cause, not by Release.
	Lost func(ctx context.Context, key string, cause error)
	// Released: Release was called and ended with err, having held the lock, as
	// far as it knows, for so long.
	Released func(ctx context.Context, key string, held time.Duration, err error)
}

func (h Hooks) acquired(ctx context.Context, key string, after time.Duration) {
	if h.Acquired != nil {
		h.Acquired(ctx, key, after)
	}
}

func (h Hooks) renewed(ctx context.Context, key string, err error) {
	if h.Renewed != nil {
		h.Renewed(ctx, key, err)
	}
}

func (h Hooks) lost(ctx context.Context, key string, cause error) {
	if h.Lost != nil {
		h.Lost(ctx, key, cause)
	}
}

func (h Hooks) released(ctx context.Context, key string, held time.Duration, err error) {
	if h.Released != nil {
		h.Released(ctx, key, held, err)
	}
}
