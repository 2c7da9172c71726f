// Package keeper holds the one writer of a SKU: the only code between Redis and
// MySQL.
//
// A Keeper (keeper.go) makes passes: it commits the queue to MySQL (commit.go), releases the
// units of ended orders at the gate, brings changed terms to the gate (inspect.go), and
// compares the two stores (reconcile.go, scan.go). If the stores differ, it announces a new
// epoch and rebuilds the gate (rebuild.go).
//
// It runs no goroutine of its own: package controller runs its passes, and decides which
// node keeps which SKU.
package keeper
