// Package controller decides which node keeps which SKU, and runs the passes of the keepers.
//
// A work queue by SKU runs the passes (pool.go), and a periodic resync finds work (resync.go).
// A distributed lock gives each SKU one keeper (assign.go), and a watchdog gives up SKUs whose
// keepers make no progress (watchdog.go). The nodes exchange messages (bus.go). Before a gate
// is replaced, the controller announces it and waits until no node relies on the gate
// (resync.go). While Redis is down, sales continue in direct mode (redis.go, direct.go).
package controller
