// Package lease is what all locks have in common, whichever store keeps them: the
// Lock that is held, the loop that renews it, the line of the callers of one
// process, and the errors.
//
// A program that uses locks needs the names that package lock repeats, Retry, Hooks, Holder
// and the errors. All else is for a lock on another store: implement Store, build the
// Locker on Leases and an Acquirer, and run the suite of package locktest on it.
package lease
