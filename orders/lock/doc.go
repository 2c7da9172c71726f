// Package lock is a distributed lock: at most one holder per key, for one lease
// at a time.
//
//	client := lock.New(rdb, lease.Config{})
//	go client.Run(ctx) // renews what is held, hears what is released
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
//   - A lock is taken, renewed and given up by one script each, which compare
//     a random token. Nobody can renew or release what is not theirs.
//
//   - Context ends before the server could give the lock to another, whatever
//     the network does: its deadline is counted on this process's monotonic
//     clock from before the request was sent, less a margin for drift.
//
//   - An answer that was lost is an outcome of its own, ErrUnknown, and what it
//     may have left behind is taken away again.
//
//   - Waiters stand in line, and a release hands the lock to the first of them
//     by a message. If that is lost, or a holder or waiter is dead, those who
//     live ask when the lease must have ended.
//
//   - A key that an operator deletes is free at once, and its holder learns of that
//     at its next renewal: after a third of a lease at most.
//
// # What it cannot promise
//
// A process may be stopped between looking at its context and writing, for
// longer than its lease (a pause, a suspended machine whose monotonic clock
// stands still); a Redis that fails over to a replica may forget a lock it has
// granted. In both cases two holders believe in the same lock. So the lock is
// for order and for speed; where two writers would do damage, the resource that
// is written must check a fencing token which it has issued itself: see package
// fence.
//
// # Kinds
//
// All are a lease.Locker, and pass the same suite (package locktest): the Client
// here, in one Redis, and those of the packages redlock, reentrant, semaphore,
// zookeeper and mysql. The packages fence and election work with each of them. Package
// lease has what they share: Config, Lock, errors, and the toolkit for another
// store. Package antipatterns shows how other locks break.
//
// # Redis clients
//
// Set ContextTimeoutEnabled in the options of the Redis client: without it
// go-redis ignores the limit of Config.Timeout, and one call may take its
// ReadTimeout times its MaxRetries, longer than a whole lease. Redis Cluster
// and Sentinel work as they are, each script touching a single slot. A
// redis.Ring does not: it would send a lock and its messages to two servers.
package lock
