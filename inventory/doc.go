// Package inventory is the gate of a flash sale. It keeps the stock of every SKU in
// Redis, and Lua scripts take and release units, each script in one atomic step.
//
// The gate is permission to try, not the truth: the units sold are in the orders'
// database. If Redis loses data, the gate is rebuilt from the database. Every call that
// moves data between Redis and the database is keyed by order id and can be repeated.
// Queued orders, and calls that are valid for one gate only, carry the gate's epoch. A
// gate whose Redis may have lost writes is stale. A stale gate neither accepts nor
// refuses orders until it is rebuilt (replid.go).
//
// Reading order: reserve.lua (one order), reserve.go and batch.go (many callers share
// one script call), memory.go (refusals of a sold-out sale without Redis), and
// queue.go, release.go and install.go (the keeper's calls).
package inventory
