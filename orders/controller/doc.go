// Package controller decides which node keeps which SKU, and runs the passes of its
// keepers: a work queue by SKU (pool.go), a periodic resync (resync.go), and one leader
// for each SKU by the distributed lock (assign.go). A watchdog releases a SKU whose keeper
// makes no progress (watchdog.go). The nodes exchange messages (bus.go). While Redis is
// down, sales continue in direct mode (redis.go, direct.go). Before a gate is replaced, the
// controller announces the change and waits until no node relies on the gate (resync.go).
package controller
