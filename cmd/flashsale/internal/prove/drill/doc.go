// Package drill brings faults about in a running sale and shows what becomes of
// it: each row of the failure table, on private real servers and several nodes of
// this very program, under the load test's attack and by its verdict.
//
// A drill is one value: what happens, what the buyer sees, what is never true, and
// the fault itself. Most are a file each; those that restart a server are in
// restarts.go, those that spoil answers in answers.go. The timing comes from a
// seed, so that a run can be repeated. How requests interleave with it cannot be
// repeated.
//
// Five drills are each aimed at one of the guards that the promises rest on, and
// fail without it: keeper-late (the fence), redis-goes-back (the epoch),
// keeper-dies-restoring (the look at the hold), paid-at-expiry (the status
// condition of closing), redis-invents (the conditional update). Most of them lead
// a second sale, beside the one under attack, to the moment (control_sale.go).
package drill
