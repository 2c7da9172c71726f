package lease

import "errors"

// How an attempt to acquire can fail. Other errors are the store's own.
var (
	// ErrHeld: someone else holds the lock.
	ErrHeld = errors.New("lock: held by someone else")
	// ErrUnknown: the store's answer was lost. TryAcquire and Acquire have already
	// tried to give back what they may have taken; at worst the lock stays taken,
	// without a holder, for one lease. A release may be called again.
	ErrUnknown = errors.New("lock: outcome unknown")
	// ErrNotRunning: Acquire was called, and nobody has called the client's Run.
	ErrNotRunning = errors.New("lock: the client's Run was not called")
	// ErrStopped: the client's Run has returned.
	ErrStopped = errors.New("lock: client stopped")
	// ErrKey: the key is empty, or has a brace but no text between a pair of them. The
	// keys of its line could not be kept in its slot of a Redis Cluster.
	ErrKey = errors.New("lock: unusable key")
)

// Why the context of a lock ended.
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
	// ErrNotMine: the lock is there, with someone else's token.
	ErrNotMine = errors.New("lock: held by another token")
	// ErrRenewal: renewals failed until the lease was nearly over. It wraps the
	// last failure.
	ErrRenewal = errors.New("lock: renewal failed")
	// ErrMaxHold: it was held for Config.MaxHold.
	ErrMaxHold = errors.New("lock: held for too long")
)
