// Package keys names the gate's keys in Redis.
//
// All keys of one SKU have the same {hash tag}. Redis Cluster keeps them in one slot, so
// a script may use them together.
package keys

import "strconv"

// Sale names a hash with the gate's state, epoch and terms, and these fields: available;
// granted, the orders accepted in this epoch; queued, the orders in the queue; built_on,
// the master_replid that the gate was built on, or '?' if the gate is stale; resume_at,
// the end of a cooldown.
func Sale(sku string) string { return "sale:{" + sku + "}" }

// Holds names a hash from order id to "quantity ms buyer". ms is the time of acceptance.
func Holds(sku string) string { return "sale:{" + sku + "}:holds" }

// Buyers names a hash from buyer to the units that the buyer holds or has paid. A buyer
// whose units were released keeps a field with 0, which records that the buyer has had an
// order.
func Buyers(sku string) string { return "sale:{" + sku + "}:buyers" }

// Queue names a stream of orders that hold units and are not yet in the database. An
// entry contains many orders, each as a field and value that queue.go decodes.
func Queue(sku string) string { return "sale:{" + sku + "}:queue" }

// Keys names a hash from buyer and idempotency key to "order id fingerprint", for the
// orders in the queue. Ack removes a field once the database has the key. Each field
// begins with the length of the buyer's name. Otherwise a buyer could choose a name and a
// key that together form another buyer's field.
func Keys(sku string) string { return "sale:{" + sku + "}:keys" }

// StagedHolds names the holds that a rebuild stages. draft names one attempt of one
// keeper, so a late command of an earlier attempt cannot change the data of a later one.
func StagedHolds(sku, draft string) string { return Holds(sku) + ":staged:" + draft }

// StagedBuyers names the buyers that a rebuild stages.
func StagedBuyers(sku, draft string) string { return Buyers(sku) + ":staged:" + draft }

// StagedPieces names the set of the numbers of the pieces that were staged.
func StagedPieces(sku, draft string) string { return Sale(sku) + ":pieces:staged:" + draft }

// Probe names a key that a node writes to check whether a master accepts writes. The
// number spreads the keys over the slots of a cluster.
func Probe(n int) string { return "probe:{" + strconv.Itoa(n) + "}" }
