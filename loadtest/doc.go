// Package loadtest attacks flash sales with many buyers at once and says whether
// the sales kept their promises.
//
// It knows the server by its HTTP contract only. It believes what its own
// clients were told, the sale's audit and the list of stored orders, and nothing
// else. The packages below it:
//
//	judge   the verdict: a pure function of that evidence
//	report  figures, text, JSON and HTML
//	client  the calls of the contract
//	gentle  a crowd to watch, which nobody judges
//
// This package attacks. The order of reading is the order of a run:
//
//	config.go    what to attack, how hard, and which shares of buyers do what
//	scenario.go  the same as a file: phases and several sales
//	run.go       the steps, from opening the sales to the reports
//	crowd.go     the buyers, and who orders next
//	sale_mix.go  which sale they order from
//	targets.go   which order is sent next: a first one, a replay or a second one
//	attack.go    vegeta sends the orders; pace.go says when
//	watch.go     the stock during the attack; progress.go shows it
//	follow.go    cancellations, payments and 202s during the attack
//	resolve.go   asks again until the outcomes of all orders are known
//	settle.go    waits until a sale is at rest
//	topup.go     fresh buyers who order until the sale is sold out
//	probe.go     how soon a cancelled unit is back on sale
package loadtest
