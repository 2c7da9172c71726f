package lease

import (
	"context"
	"math"
	"time"
)

// A Locker acquires locks, independent of the store that keeps them. The Clients of
// packages lock, redlock, reentrant, semaphore, zookeeper and mysql implement it.
type Locker interface {
	// TryAcquire acquires the lock if it is free. It returns ErrHeld if another caller
	// holds the lock, ErrUnknown if the answer was lost, ErrStopped after Run has
	// returned, and the error and cause of ctx if ctx ends first. ctx bounds only the
	// attempt: the lock's context inherits the values of ctx but not its cancellation.
	TryAcquire(ctx context.Context, key string, options ...Option) (*Lock, error)

	// Acquire is like TryAcquire but waits while another caller holds the lock. If ctx
	// ends, it returns ErrHeld with the error and cause of ctx, and leaves nothing in
	// the store. Any other failure ends the wait, and the caller decides whether to
	// retry. Without Run, Acquire returns ErrNotRunning.
	Acquire(ctx context.Context, key string, options ...Option) (*Lock, error)

	// Remaining returns, in the order of keys, how long each lock stays held if it is
	// neither renewed nor released. A free lock has 0.
	Remaining(ctx context.Context, keys ...string) ([]time.Duration, error)

	// Run renews the held locks and wakes waiters until ctx ends. Locks that are still
	// held are then lost, with ErrStopped. Without Run, a lock ends after one lease
	// unless Lock.Extend renews it, and Acquire fails.
	Run(ctx context.Context) error
}

// Forever is the time that Remaining returns for a key that never expires. Lockers only write
// keys that expire, so the key belongs to another program.
const Forever = time.Duration(math.MaxInt64)

// A Holder describes the holder of a lock. The zero Holder means that the lock is free.
type Holder struct {
	Held  bool
	Since time.Time // acquisition time by the store's clock; set only if the holder has a note
	Note  string    // the holder's Config.Note
}

// A Store renews and releases locks on a server.
type Store interface {
	// Renew starts a new lease for each of the locks. It returns one error per lock, in
	// their order: nil, ErrExpired or ErrNotMine. Any other error means that no answer
	// arrived; the lock then stays held until its deadline.
	Renew(ctx context.Context, locks []*Lock) []error
	// Release releases l in bounded time, even if ctx has ended. It returns nil,
	// ErrExpired, ErrNotMine, or ErrUnknown if no answer arrived. doubt is true if the
	// answer to one attempt was lost, so that this attempt may have released l.
	Release(ctx context.Context, l *Lock) (doubt bool, err error)
}
