package lease

import (
	"context"
	"math"
	"time"
)

// A Locker is what a program needs of a lock, whichever store keeps it: the Client
// of package lock, and the packages redlock, reentrant, zookeeper and mysql.
type Locker interface {
	// TryAcquire takes the lock if it is free. It returns ErrHeld when someone
	// else holds it, ErrUnknown when the answer was lost, ErrStopped after Run has
	// returned, and the context's error and cause when it ended before the lock was
	// there. ctx bounds the attempt only: the lock keeps its values, not its end.
	TryAcquire(ctx context.Context, key string) (*Lock, error)

	// Acquire is TryAcquire that waits until ctx ends while someone else holds
	// the lock. It returns ErrHeld with the context's error and cause then, and
	// leaves nothing behind. Any other failure ends the wait: whether to go on is
	// for the caller to say. It wants Run: ErrNotRunning.
	Acquire(ctx context.Context, key string) (*Lock, error)

	// Remaining reports, in the order of keys, how long each lock is still taken
	// at least: 0 when it is free. A holder that renews makes the answer move.
	Remaining(ctx context.Context, keys ...string) ([]time.Duration, error)

	// Run renews what is held and hears what is released, until ctx ends. Then
	// every lock that is still held is lost (ErrStopped). Without it a lock is
	// good for one lease, and only TryAcquire takes one.
	Run(ctx context.Context) error
}

// Forever is what Remaining reports for a key that never expires. No Locker leaves
// one: somebody else wrote it, and only they can remove it.
const Forever = time.Duration(math.MaxInt64)

// A Store is what a Locker's Leases live on.
type Store interface {
	// Renew starts a new lease for each of the locks. One error per lock, in
	// their order: nil, ErrExpired or ErrNotMine; any other says that no answer
	// came, and the lock is held until its deadline.
	Renew(ctx context.Context, locks []*Lock) []error
	// Release gives l up, whether or not ctx has ended, within a time of its own:
	// nil, ErrExpired, ErrNotMine, or ErrUnknown for no answer. doubt says that an
	// attempt's answer was lost, so that it may have done its work unseen.
	Release(ctx context.Context, l *Lock) (doubt bool, err error)
}
