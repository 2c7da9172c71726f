// Package lock is a distributed lock in Redis: at most one holder per key. A holder has
// the lock for one lease at a time. The server frees a lock that is not renewed in time.
//
//	client := lock.New(rdb, lock.Config{})
//	go client.Run(ctx) // renews leases and receives messages
//
//	l, err := client.Acquire(ctx, "lock:{sku}")
//	if err != nil {
//		return err
//	}
//	defer l.Release(ctx)
//	return work(l.Context()) // ends, with its cause, before the lock is lost
//
// A process may pause between a look at its context and a write, and a Redis that fails
// over may forget a lock. Two holders then believe in the same lock. So the lock is for
// order and for speed. Where two writers would do damage, the resource that is written
// must check a fencing token: see package fence. README.md states what the lock
// guarantees, what no lock can guarantee, and in which order to read the code.
//
// Set ContextTimeoutEnabled in the options of the Redis client. Without it go-redis
// ignores Config.Timeout, and one call may take longer than a whole lease. Redis Cluster
// and Sentinel need no settings, since each script touches a single slot. A redis.Ring
// does not work: it sends a lock and its messages to two servers.
package lock

import "flashsale/orders/lock/lease"

// Config says how locks are held and waited for.
type Config = lease.Config

// Lock is a lock that is held until its Context ends.
type Lock = lease.Lock

// Locker is what a program needs of a lock, whichever store keeps it.
type Locker = lease.Locker

// Option changes the Config for one call.
type Option = lease.Option

// The errors that most callers look for. Package lease has the others.
var (
	ErrHeld     = lease.ErrHeld
	ErrUnknown  = lease.ErrUnknown
	ErrStopped  = lease.ErrStopped
	ErrReleased = lease.ErrReleased
	ErrLost     = lease.ErrLost
	ErrExpired  = lease.ErrExpired
)
