// Package drill breaks parts of a running sale and judges the answers that buyers
// received. It starts its own Redis and MySQL, and several nodes of this program.
//
// A drill is one row of the failure table: one fault, at a time drawn from a seed,
// while the load test attacks one sale (attack.go). A storm draws many faults from the
// same catalogue (catalogue.go), one or two at a time, against three sales, with its own
// buyers (round.go). The seed determines the faults and their times, but not how requests
// interleave with them. Package loadtest/judge gives the verdict on drills and storms.
//
// Five drills each test one guard, and fail without it: keeper-late (the fence),
// redis-goes-back (the epoch), keeper-dies-restoring (the check of the hold),
// paid-at-expiry (the status condition of closing), redis-invents (the conditional
// update). Most of them use a second sale, in which they can time every request
// (control_sale.go).
//
// Four files check conditions during a storm:
//
//   - watch.go reads the database twenty times a second, in one consistent read. It
//     reports an oversold sale, a buyer above the limit, a key with two orders, a
//     payment both taken and refunded, and any fence, epoch or count that has
//     decreased.
//   - liveness.go uses the same reads. While a node is healthy, each sale with units left
//     must sell within about two leases, and each sold-out sale must refuse orders.
//   - settle.go checks after the last fault that all units are released within the stated
//     time, and that exactly these units can be bought.
//   - consumer.go reads the feed of changes at any node, and goes back to older cursors. After
//     the last fault, the feed must report the state of every row.
package drill
