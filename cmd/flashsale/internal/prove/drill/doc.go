// Package drill breaks parts of a running sale and judges what the buyers were told:
// on private real servers, with several nodes of this very program.
//
// A drill is one row of the failure table: one fault, at a moment drawn from a seed,
// while the load test attacks one sale (attack.go). A storm draws many faults from the
// same catalogue (catalogue.go), one or two at a time, for three sales with buyers of
// its own (round.go). A seed fixes the faults and their times. How requests interleave
// with them cannot be repeated. The verdict on both is that of loadtest/judge.
//
// Five drills are each aimed at one of the guards that the promises rest on, and
// fail without it: keeper-late (the fence), redis-goes-back (the epoch),
// keeper-dies-restoring (the look at the hold), paid-at-expiry (the status
// condition of closing), redis-invents (the conditional update). Most of them lead
// a second sale, beside the one under attack, to the moment (control_sale.go).
//
// These files check what must hold in a storm:
//
//   - watch.go reads the database twenty times a second, in one consistent read:
//     is anything oversold, is a buyer above the limit, does a key have two
//     orders, is a payment both taken and refunded, has a fence, an epoch or a
//     number that only grows gone back;
//   - liveness.go asks at the same moments: if a node is healthy, does each sale that has
//     units left sell within two leases, and does each sale that is sold out refuse;
//   - settle.go asks when all is mended: are all units back within the stated
//     time, and can they be bought, not one more and not one less.
package drill
