// Package loadtest attacks flash sales with many buyers at once and reports whether
// the sales kept their promises.
//
// It uses only the HTTP contract of the server. The verdict rests on the answers that
// its clients received, the audit of the sale and the list of stored orders. It uses
// these packages:
//
//	judge    gives the verdict: a pure function of that evidence
//	report   writes figures, text, JSON and HTML
//	client   makes the calls of the contract
//	adapter  puts other people's shops behind the contract
//	gentle   sends a crowd to watch; it gives no verdict
//
// The files follow the order of a run:
//
//	about.go     what the shop lacks
//	config.go    what to attack, at which rate, and which share of buyers does what
//	scenario.go  a Config as a file, with phases and several sales
//	run.go       the steps, from opening the sales to the reports
//	crowd.go     the buyers, and which of them orders next
//	sale_mix.go  which sale an order is for
//	targets.go   which order is sent next: a first one, a replay or a second one
//	attack.go    sends the orders with vegeta, at the times of pace.go
//	watch.go     reads the stock during the attack, which progress.go prints
//	feed.go      reads the feed of changes during the attack, and to its end
//	follow.go    cancels, pays and looks up orders during the attack
//	resolve.go   retries orders until their outcomes are known
//	settle.go    waits until a sale is at rest
//	topup.go     sends fresh buyers until the sale is sold out
//	probe.go     measures how soon a cancelled unit is back on sale
package loadtest
