// Package storm breaks many parts of a selling service at once, for as long as
// it is asked to, and judges every answer that its buyers have heard.
//
// A drill (the package above) is one row of the failure table: one fault, one
// sale, one verdict. A storm looks for what nobody has thought of: three nodes,
// three sales, 24 buyers with retries, payments and cancellations, an operator
// who restocks and cuts, and a nemesis that draws its faults from a seed. It
// knows the service only from outside: by its API, and by the network between
// the nodes and their stores.
//
// What must hold, and who looks:
//
//   - watch.go asks the database twenty times a second, by one consistent read:
//     is anything oversold, is a buyer above the limit, does a key have two
//     orders, is a payment both taken and refunded, has a fence, an epoch or a
//     number that only grows gone back;
//   - life.go asks at the same moments: does each sale that has something left
//     sell, wherever one healthy node is left, within two leases;
//   - settle.go asks when all is mended: are all units back within the stated
//     time, and can they be bought, not one more and not one less;
//   - judge.go compares all answers with all rows: no yes is lost, no key has
//     two orders, no definite no becomes a yes.
//
// A run consists of acts, each with new sales on the same servers. The seed of an
// act fixes its plan: the faults, their order, their targets and durations. It
// does not fix how requests interleave with them.
package storm
