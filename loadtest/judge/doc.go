// Package judge says whether a flash sale kept its promises. It reads what the
// clients were told, the stored orders and the sale's own audit, and nothing
// else. It does no I/O: the same evidence gives the same verdict.
//
//	evidence.go  what a verdict rests on: requests, closings, rows, audit
//	outcome.go   what a client knows about one order, or one payment, in the end
//	index.go     the evidence, indexed for the checks
//	judge.go     Judge, which calls the checks
//	units.go     oversold, undersold, over the limit, drift
//	orders.go    lost, unannounced and duplicate orders
//	answers.go   answers outside of the contract
//	history.go   is there an order of events that explains all answers?
//	verdict.go   what Judge found
package judge
