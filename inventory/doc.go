// Package inventory is the gate of a flash sale: the stock of every SKU in Redis. Lua
// scripts take and release units, each script in one atomic step.
//
// The gate is permission to try, not the truth: the orders' database holds the units
// sold. If Redis forgets, the gate is rebuilt from the database. Therefore every call
// that crosses the border between the two is keyed by order id and can be repeated. A
// keeper's call that is valid for one gate only names the epoch of that gate, and so
// does each queued order. A gate whose Redis may have lost writes is stale: it neither
// accepts nor refuses orders until it is rebuilt (replid.go).
//
// Reading order: reserve.lua (one order), reserve.go and batch.go (many callers share
// one script call), memory.go (refusals of a sold-out sale without Redis), and
// queue.go, release.go and install.go (the keeper's calls).
package inventory
