// Package loadtest attacks flash sales with many buyers at once and judges
// what they did.
//
// It knows the server only by its HTTP contract: it believes what its own
// clients were told, a sale's audit and the list of stored orders, and
// nothing else. Reading order is the order of a run:
//
//	config.go    what to attack, how hard, and which shares do what
//	scenario.go  the same as a file: phases of rate, several sales
//	run.go       the steps, from opening the sales to the reports
//	crowd.go     the buyers: a token and an address each
//	mix.go       which sale, and who comes next
//	targets.go   which order of a sale is sent next: first, replay or second
//	attack.go    vegeta: pace, connections, results
//	watch.go     the stock, read while the attack runs; progress.go shows it
//	follow.go    cancellations, payments and 202s, while the attack runs
//	resolve.go   unknown outcomes, asked again until they are known
//	settle.go    waiting until a sale is at rest
//	topup.go     fresh buyers who order until it is sold out
//	probe.go     how soon a cancelled unit is back on sale
//	judge.go     the verdict on one sale: a pure function of the evidence
//	payments.go  what is another verdict where units are taken on payment
//	report.go    its figures; text.go, json.go and html.go show them
//	reports.go   those of several sales
//	against.go   a run beside an earlier one
package loadtest
