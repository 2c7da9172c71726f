// Package lock implements a distributed lock in Redis: at most one holder per key. A lock
// is held for one lease at a time. If it is not renewed in time, the server frees it.
//
//	client := lock.New(rdb, lock.Config{})
//	go client.Run(ctx) // renews leases and receives messages
//
//	l, err := client.Acquire(ctx, "lock:{sku}")
//	if err != nil {
//		return err
//	}
//	defer l.Release(ctx)
//	return work(l.Context()) // the context ends before the lock is lost
//
// A lock alone does not make writes safe. A process may pause between checking its
// context and writing, and a Redis failover may lose a lock; two processes then believe
// that they hold it. If two writers would do damage, the resource must check a fencing
// token: see package fence. README.md lists the guarantees of this lock and the limits
// of every lock, and gives an order in which to read the code.
//
// Set ContextTimeoutEnabled in the options of the Redis client. Otherwise go-redis
// ignores Config.Timeout, and one call may take longer than a whole lease. Redis Cluster
// and Sentinel need no settings, because each script touches a single slot. redis.Ring
// is not supported: it sends a lock and its messages to two servers.
package lock

import "flashsale/orders/lock/lease"

// Config contains the settings of a Client.
type Config = lease.Config

// Lock is a lock that is held until its Context ends.
type Lock = lease.Lock

// Locker is the interface of a lock client, independent of the store.
type Locker = lease.Locker

// Option changes the Config for one call.
type Option = lease.Option

// Most callers check for these errors only. Package lease has further errors.
var (
	ErrHeld     = lease.ErrHeld
	ErrUnknown  = lease.ErrUnknown
	ErrStopped  = lease.ErrStopped
	ErrReleased = lease.ErrReleased
	ErrLost     = lease.ErrLost
	ErrExpired  = lease.ErrExpired
)
