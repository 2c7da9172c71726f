// Package orders is the truth of a flash sale: sales and orders in MySQL.
//
// The way of one order: place.go asks the gate (package inventory), which
// queues the order; the SKU's keeper (keeper.go) carries it into MySQL in one
// transaction for a whole batch (commit.go, judge.go), or for those of several
// SKUs (convoy.go); waiters.go and bus.go tell the caller, on whichever node.
// close.go ends unpaid orders, and the keeper gives their units back
// (settle.go). keepers.go decides which node keeps which SKU, under the
// distributed lock of package lock.
//
// Order of locks, everywhere: the row in sales first, then rows in orders.
package orders
