package lease

import "context"

// An Acquirer implements all methods of Locker except Remaining.
type Acquirer struct {
	leases *Leases
	take   func(*Call) (*Lock, error)
}

// NewAcquirer returns an Acquirer that calls take for each TryAcquire and Acquire. If
// Call.Waiting is nil, take makes one attempt; otherwise it waits for the lock.
func NewAcquirer(leases *Leases, take func(*Call) (*Lock, error)) *Acquirer {
	return &Acquirer{leases, take}
}

// Run implements Locker.
func (a *Acquirer) Run(ctx context.Context) error { return a.leases.Run(ctx) }

// TryAcquire implements Locker.
func (a *Acquirer) TryAcquire(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return a.leases.TryAcquire(ctx, key, options, a.take)
}

// Acquire implements Locker.
func (a *Acquirer) Acquire(ctx context.Context, key string, options ...Option) (*Lock, error) {
	return a.leases.Acquire(ctx, key, options, a.take)
}
