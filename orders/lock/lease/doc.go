// Package lease contains the parts of a lock that do not depend on its store: the Lock,
// the loop that renews it, the queue of the callers of one process, and the errors.
//
// A program that uses locks needs Config, Lock, Locker, Option, Retry, Hooks, Holder and the
// errors. The other parts serve to build a lock on another store: implement Store, build the
// Locker from Leases and an Acquirer, and test it with package locktest.
package lease
