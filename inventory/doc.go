// Package inventory is the gate of a flash sale: the stock of every SKU in
// Redis, taken and given back by Lua scripts that are each one atomic step.
//
// The gate is permission to try, not the truth: what is sold stands in the
// orders' database. If Redis forgets, the gate is rebuilt from there. So every
// call that crosses the border between the two is keyed by order id and can be
// repeated; a keeper's call that is true of one gate only names its epoch, and so
// does each queued order. A gate whose Redis may have lost writes is stale: it neither
// accepts nor refuses orders until it is rebuilt (replid.go).
//
// Read it in this order: reserve.lua, what one order does; reserve.go and
// batch.go, how many callers share one script call; memory.go, how a sold-out
// sale refuses without Redis; queue.go, release.go and install.go, what the
// keeper does.
package inventory
