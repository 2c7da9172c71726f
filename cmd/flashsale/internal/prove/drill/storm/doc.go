// Package storm breaks many parts of a selling service at once, for a given time, and
// judges every answer that its buyers have received.
//
// A drill (the package above) is one row of the failure table: one fault, one
// sale, one verdict. A storm looks for unexpected combinations: three nodes,
// three sales, 24 buyers with retries, payments and cancellations, an operator
// who restocks and cuts, and a nemesis that draws its faults from a seed. It
// knows the service only from outside: by its API, and by the network between
// the nodes and their stores.
//
// These files check what must hold:
//
//   - watch.go asks the database twenty times a second, by one consistent read:
//     is anything oversold, is a buyer above the limit, does a key have two
//     orders, is a payment both taken and refunded, has a fence, an epoch or a
//     number that only grows gone back;
//   - life.go asks at the same moments: if a node is healthy, does each sale that has
//     units left sell within two leases, and does each sale that is sold out refuse;
//   - settle.go asks when all is mended: are all units back within the stated
//     time, and can they be bought, not one more and not one less;
//   - judge.go compares all answers with all rows: no acceptance is lost, no
//     key has two orders, no final refusal is followed by an acceptance, and no promise
//     is refused later: buyer.go repeats each promised order, payment and cancellation
//     at each node.
//
// A run consists of acts, each with new sales on the same servers. The seed of an
// act fixes its plan: the faults, their order, their targets and durations. It
// does not fix how requests interleave with them. After a fault the nemesis waits until
// the sales have been watched for more than half of the time so far, because a new fault
// gives the sales new time to recover.
//
// Two faults need more than the servers. The clock of Redis is stepped by a shim
// (shim/clock.c), which the storm compiles. A node is left behind at a replaced primary
// only if the database is a MariaDB. If one of the two is missing, the plan stays the same,
// and the report states that the fault was left out.
package storm
