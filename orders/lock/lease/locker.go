package lease

import (
	"context"
	"math"
	"time"
)

// A Locker is what a program needs of a lock, whichever store keeps it. The Clients of
// the packages lock, redlock, reentrant, semaphore, zookeeper and mysql are Lockers.
type Locker interface {
	// TryAcquire takes the lock if it is free. It returns ErrHeld when someone
	// else holds it, ErrUnknown when the answer was lost, ErrStopped after Run has
	// returned, and the error and the cause of ctx when ctx ended first. ctx bounds
	// the attempt only: the lock's context has the values of ctx, and not its end.
	TryAcquire(ctx context.Context, key string, options ...Option) (*Lock, error)

	// Acquire is TryAcquire that waits while someone else holds the lock. When ctx
	// ends, it returns ErrHeld with the error and the cause of ctx, and leaves nothing
	// behind. Any other failure ends the wait: the caller decides whether to try
	// again. Without Run it returns ErrNotRunning.
	Acquire(ctx context.Context, key string, options ...Option) (*Lock, error)

	// Remaining reports, in the order of keys, how long each lock stays taken if
	// nobody renews or releases it: 0 when it is free.
	Remaining(ctx context.Context, keys ...string) ([]time.Duration, error)

	// Run renews what is held and wakes waiters, until ctx ends. Then every lock that
	// is still held is lost (ErrStopped). Without Run a lock ends after one lease
	// unless Lock.Extend renews it, and only TryAcquire takes one.
	Run(ctx context.Context) error
}

// Forever is what Remaining reports for a key that never expires. No Locker writes such
// a key: somebody else did, and has to remove it.
const Forever = time.Duration(math.MaxInt64)

// A Holder is who holds a lock, by what its store knows. The zero Holder is nobody.
type Holder struct {
	Held  bool
	Since time.Time // by the store's clock; only of a holder with a note
	Note  string    // its Config.Note
}

// A Store renews and releases: what Leases need of the server that keeps the locks.
type Store interface {
	// Renew starts a new lease for each of the locks. It returns one error per lock,
	// in their order: nil, ErrExpired or ErrNotMine. Any other error says that no
	// answer came; the lock is then held until its deadline.
	Renew(ctx context.Context, locks []*Lock) []error
	// Release gives l up in a bounded time, whether or not ctx has ended. It
	// returns nil, ErrExpired, ErrNotMine, or ErrUnknown for no answer. doubt says that
	// an answer was lost on the way: that attempt may have released l unseen.
	Release(ctx context.Context, l *Lock) (doubt bool, err error)
}
