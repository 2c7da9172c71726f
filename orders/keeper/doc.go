// Package keeper contains the keeper of a SKU, the only code that carries orders from Redis
// to MySQL.
//
// A Keeper (keeper.go) runs passes. A pass commits the queue to MySQL (batch.go), releases
// ended orders at the gate, copies changed terms to the gate (inspect.go), and compares the
// two stores (reconcile.go, scan.go). If they differ, the keeper announces a new epoch and
// rebuilds the gate (rebuild.go).
//
// Package controller decides which node keeps which SKU, and runs the passes.
package keeper
