// Package store is the only SQL of the product, for MySQL and SQLite. It locks a
// sale's row, reads, lets orders.Ledger decide, and writes (commit.go); it ends
// orders (close.go) and lists ended orders whose units are not yet released at the gate
// (release.go); it hands a SKU over to a new keeper (takeover.go); and it reads the rows
// from which a gate is rebuilt (snapshot.go, delta.go). An answer that rests on rows that
// were only read waits for a barrier (barrier.go). catalog.go is a node's copy of the
// sales, and the lease under which the node may rely on the refusals of a gate.
// archive.go moves sales that are over to another database.
package store
