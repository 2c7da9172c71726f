// Package controller says which node keeps which SKU, and has its keepers make their
// passes: a work queue by SKU (pool.go), a periodic resync (resync.go), and one
// leader for each SKU by the distributed lock (assign.go). A watchdog lets go of a
// keeper that makes no progress (watchdog.go). While Redis is down, sales go on in
// direct mode (direct.go). Before a gate is replaced, by a rebuild or by direct mode,
// the controller announces that and waits until no node relies on the gate (resync.go).
package controller
