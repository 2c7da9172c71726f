// Package keeper holds the one writer of a SKU: the only code between Redis and
// MySQL.
//
// A Keeper (keeper.go) makes passes: it carries the queue into MySQL, tells the gate
// which orders have ended, and compares the two stores (reconcile.go, scan.go). Where
// they differ, it builds the gate anew (rebuild.go), after the new epoch was announced.
//
// It runs no goroutine of its own: package controller has its passes made, and says
// which node keeps what.
package keeper
