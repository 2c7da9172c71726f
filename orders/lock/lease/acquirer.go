package lease

import "context"

// An Acquirer is all of a Locker but Remaining.
type Acquirer struct {
	leases *Leases
	take   func(*Call) (*Lock, error)
}

// NewAcquirer returns an Acquirer that calls take for each call. If Call.Waiting is set,
// take waits for the lock; otherwise it makes one attempt.
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
