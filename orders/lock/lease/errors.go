package lease

import "errors"

// How an attempt to acquire can fail. Other errors are the store's own answers.
var (
	// ErrHeld: someone else holds the lock.
	ErrHeld = errors.New("lock: held by someone else")
	// ErrUnknown: the store's answer was lost. An acquire has already tried to
	// take back what it may have left; at worst the lock stays taken, without
	// an owner, for one lease. A release may be called again.
	ErrUnknown = errors.New("lock: outcome unknown")
	// ErrNotRunning: an Acquire, and nobody has called the client's Run.
	ErrNotRunning = errors.New("lock: the client's Run was not called")
	// ErrStopped: the client's Run has returned.
	ErrStopped = errors.New("lock: client stopped")
	// ErrKey: an empty key, or one with a brace and nothing between braces, whose
	// other keys could not be kept in its slot of a Redis Cluster.
	ErrKey = errors.New("lock: unusable key")
)

// Why the context of a lock ended: ErrReleased by its own holder, or ErrLost.
var (
	// ErrReleased is the cause after Release.
	ErrReleased = errors.New("lock: released")
	// ErrLost is the cause in every other case, and wraps the reason: ErrExpired,
	// ErrNotMine (stolen), ErrRenewal, ErrMaxHold or ErrStopped.
	ErrLost = errors.New("lock: lost")
)

// Why a lock is not held any more. Release returns the first two as well.
var (
	// ErrExpired: the lease ended, or its key was deleted or forgotten by the store.
	ErrExpired = errors.New("lock: lease expired")
	// ErrNotMine: someone else's token is there.
	ErrNotMine = errors.New("lock: held by another token")
	// ErrRenewal: renewals failed until the lease was nearly over. It wraps the
	// last failure.
	ErrRenewal = errors.New("lock: renewal failed")
	// ErrMaxHold: it was held for Config.MaxHold.
	ErrMaxHold = errors.New("lock: held for too long")
)
