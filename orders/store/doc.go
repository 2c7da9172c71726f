// Package store contains all SQL of the product, for MySQL and SQLite.
//
//   - commit.go locks a sale's row, reads a ledger, lets it decide, and writes the orders.
//   - close.go pays, cancels and expires orders.
//   - release.go lists ended orders whose hold is still at the gate.
//   - takeover.go makes a node the keeper of a SKU, and begins the epoch of a new gate.
//   - snapshot.go and delta.go read the orders from which a gate is rebuilt.
//   - barrier.go makes rows durable that an answer rests on and that were only read.
//   - catalog.go is a node's copy of the sales. It is also the lease under which the node
//     may rely on the refusals of a gate.
//   - archive.go moves old sales to another database.
package store
