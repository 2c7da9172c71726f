// Package lease is what all locks have in common, whichever store keeps them: the
// Lock that is held, the loop that renews it, the line of the callers of one
// process, and the errors.
//
// A program that uses locks needs of it the types and errors that the stores'
// packages name. Who builds a lock on another store implements Store, has Leases,
// and shows by package locktest that it is a lock.
package lease
