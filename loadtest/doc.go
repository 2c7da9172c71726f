// Package loadtest attacks a flash sale with many buyers at once and judges
// what it did.
//
// It knows the server only by its HTTP contract: it believes what its own
// clients were told, the sale's audit and the list of stored orders, and
// nothing else. Reading order is the order of a run:
//
//	config.go    what to attack, how hard, and which shares do what
//	run.go       the phases, from opening the sale to the report
//	crowd.go     the buyers: a token and an address each
//	targets.go   which order is sent next: first, replay or second
//	attack.go    vegeta: pace, connections, results
//	follow.go    cancellations, payments and 202s, while the attack runs
//	resolve.go   unknown outcomes, asked again until they are known
//	settle.go    waiting until the sale is at rest
//	topup.go     fresh buyers who order until it is sold out
//	probe.go     how soon a cancelled unit is back on sale
//	judge.go     the verdict: a pure function of the evidence
//	payments.go  what is another verdict where units are taken on payment
//	report.go    the figures; text.go, json.go and html.go show them
package loadtest
