package lease

import "errors"

// These errors describe a failed attempt to acquire a lock. A store may return other errors.
var (
	// ErrHeld means that another caller holds the lock.
	ErrHeld = errors.New("lock: held by someone else")
	// ErrUnknown means that the store's answer was lost. TryAcquire and Acquire have
	// already tried to release the lock; at worst it stays held for one lease. A release
	// that returned ErrUnknown may be called again.
	ErrUnknown = errors.New("lock: the outcome of the call is unknown")
	// ErrNotRunning means that Acquire was called without the client's Run.
	ErrNotRunning = errors.New("lock: the client's Run was not called")
	// ErrStopped means that the client's Run has returned.
	ErrStopped = errors.New("lock: the client is stopped")
	// ErrKey means that the key is empty, or contains a brace but no hash tag, as "a{}b" does. In
	// a Redis Cluster, the wait queue of a key with a brace but no hash tag could not share the
	// key's slot.
	ErrKey = errors.New("lock: the key is empty or has braces without a hash tag")
)

// These errors are the causes with which a lock's Context ends.
var (
	// ErrReleased is the cause after Release.
	ErrReleased = errors.New("lock: the lock was released")
	// ErrLost is the cause in every other case. It wraps the reason: ErrExpired,
	// ErrNotMine, ErrRenewal, ErrMaxHold or ErrStopped.
	ErrLost = errors.New("lock: the lock is lost")
)

// These errors are reasons for the loss of a lock. Release returns ErrExpired and
// ErrNotMine as well.
var (
	// ErrExpired means that the lease ended, or that the store no longer has the key.
	ErrExpired = errors.New("lock: the lease has expired")
	// ErrNotMine means that the key contains the token of another holder.
	ErrNotMine = errors.New("lock: another token holds the lock")
	// ErrRenewal means that renewals failed until the deadline of the lock. It wraps
	// the last failure.
	ErrRenewal = errors.New("lock: the lock could not be renewed")
	// ErrMaxHold means that the lock was held for Config.MaxHold.
	ErrMaxHold = errors.New("lock: the lock was held for longer than MaxHold")
)
