// Package store is the only SQL of the product, for MySQL and SQLite. It locks a
// sale's row, reads, lets orders.Decide decide, and writes (commit.go); it ends
// orders (close.go) and tells which of them the gate has not been told of
// (release.go); it hands a SKU over to a new keeper (takeover.go); and it says
// what a gate is rebuilt from (snapshot.go, delta.go). barrier.go stands before
// every answer that was only read. catalog.go is a node's copy of the sales, and the
// lease under which the node may answer with the refusals of a gate. archive.go moves
// sales that are over to another database.
package store
