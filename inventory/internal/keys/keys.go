// Package keys names everything that the gate keeps in Redis.
//
// All keys of one SKU carry the same {hash tag}, so that Redis Cluster keeps
// them in one slot and a script may touch them together.
package keys

import "strconv"

// Sale is a hash: state, epoch, built_on (the master_replid of the Redis it was
// built on, '?' once it has gone back), total, available, resume_at (until when nothing is sold,
// see cooldown.lua), granted, queued (the orders in the queue) and the terms of the
// sale.
func Sale(sku string) string { return "sale:{" + sku + "}" }

// Holds is a hash: order id to "quantity ms buyer", ms being when it was reserved.
func Holds(sku string) string { return "sale:{" + sku + "}:holds" }

// Buyers is a hash: buyer to the units that buyer holds or has paid. A buyer
// whose units have come back stays with 0: "has had an order here".
func Buyers(sku string) string { return "sale:{" + sku + "}:buyers" }

// Queue is a stream: orders that hold units and are not yet in the database,
// many to an entry, each a field of it: order id to the rest (see queue.go).
func Queue(sku string) string { return "sale:{" + sku + "}:queue" }

// Keys is a hash: buyer and idempotency key to "order id fingerprint" of an
// order that is in the queue. Once the order is in the database, that knows the
// key, and the field goes (ack.lua). The field begins with the buyer's length,
// which keeps its halves apart whatever they are made of: no buyer can name
// another one's order.
func Keys(sku string) string { return "sale:{" + sku + "}:keys" }

// StagedHolds is the key of the staged holds: what a rebuild is about to install. The draft in the name, which is one attempt's of one keeper, keeps
// attempts apart, and a command of an earlier one that arrives late away from
// the later one's data.
func StagedHolds(sku, draft string) string { return Holds(sku) + ":staged:" + draft }

// StagedBuyers is the key of the staged buyers.
func StagedBuyers(sku, draft string) string { return Buyers(sku) + ":staged:" + draft }

// StagedPieces is a set: the numbers of the pieces that those are made of.
func StagedPieces(sku, draft string) string { return Sale(sku) + ":pieces:staged:" + draft }

// Probe is what a node writes to find out whether a master takes writes. The
// number spreads such keys over a cluster's slots.
func Probe(n int) string { return "probe:{" + strconv.Itoa(n) + "}" }
