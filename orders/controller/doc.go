// Package controller decides which node keeps which SKU, and runs the passes of its
// keepers: a work queue by SKU (pool.go), a periodic resync (resync.go), and one leader
// for each SKU by the distributed lock (assign.go). A watchdog releases a SKU whose keeper
// makes no progress (watchdog.go). While Redis is down, sales continue in direct mode
// (direct.go). Before a gate is replaced, by a rebuild or by direct mode, the controller
// announces the change and waits until no node relies on the gate (resync.go).
package controller
