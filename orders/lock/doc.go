// Package lock is a distributed lock: at most one holder per key. A holder has the
// lock for one lease at a time: the server frees a lock that is not renewed for so long.
//
//	client := lock.New(rdb, lease.Config{})
//	go client.Run(ctx) // renews what is held, hears what is handed over
//
//	l, err := client.Acquire(ctx, "lock:{sku}")
//	if err != nil {
//		return err
//	}
//	defer l.Release(ctx)
//	return work(l.Context()) // ends, with its cause, before the lock is lost
//
// # What it promises
//
//   - Taking, renewing and releasing are one script each. The script compares a
//     random token, so nobody can renew or release what is not theirs.
//
//   - Context ends before the server could give the lock to another, whatever
//     the network does. Its deadline is counted on this process's monotonic
//     clock, from before the request was sent, less Config.Drift.
//
//   - A lost answer is an outcome of its own, ErrUnknown. The client then gives
//     back what it may have taken.
//
//   - Waiters stand in line. A release hands the lock to the first of them, and
//     tells it by a message. If the message is lost, or the holder or a waiter is
//     dead, the living waiters ask again when the lease must have ended.
//
//   - A key that an operator deletes is free at once. Its holder learns of that
//     at its next renewal, after about a third of a lease.
//
// # What it cannot promise
//
// A process may be stopped between looking at its context and writing, for
// longer than its lease: by a pause, or on a suspended machine whose monotonic
// clock stands still. A Redis that fails over to a replica may forget a lock that
// it has granted. If its clock is set forward or back, a lock counts as expired
// until its holder renews it. In all these cases two holders believe in the same lock. So the lock
// is for order and for speed. Where two writers would do damage, the resource that
// is written must check a fencing token, best one that it has issued itself: see
// package fence.
//
// # Kinds
//
// All locks are a lease.Locker, and pass the same suite (package locktest): the
// Client here, in one Redis, and those of the packages redlock, reentrant,
// semaphore, zookeeper and mysql. fence.Acquire and package election take any of
// them. Package lease has what they share: Config, Lock, the errors, and the toolkit
// for another store. Package antipatterns shows how other locks break.
//
// # Reading order
//
// lease/locker.go (what a lock does), lease/config.go, client.go, acquire.go (one
// attempt), wait.go (standing in line), listen.go (the messages), the scripts
// acquire.lua, hand_over.lua and release.lua in internal/onredis, then
// lease/lock.go (the context) and lease/leases.go (the renewals).
//
// # Redis clients
//
// Set ContextTimeoutEnabled in the options of the Redis client. Without it
// go-redis ignores Config.Timeout, and one call may take its ReadTimeout times its
// MaxRetries: longer than a whole lease. Redis Cluster and Sentinel work as they
// are, since each script touches a single slot. A redis.Ring does not work: it would
// send a lock and its messages to two servers.
package lock
