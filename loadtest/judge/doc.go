// Package judge decides whether a flash sale kept its promises. [Judge] compares
// the answers that the clients received with the stored orders, with the sale's
// audit and with the feed of changes. It does no I/O: the same evidence always gives
// the same verdict.
//
// The constants [Oversold] to [Invented] define the promises. The files are, in
// reading order:
//
//	evidence.go  the input: requests, closings, rows and audit
//	about.go     what a shop lacks, and the checks that then do not apply
//	outcome.go   what the answers prove about one order or one payment
//	index.go     the evidence, indexed by order, buyer and key
//	judge.go     Judge, which runs all checks
//	units.go     the checks oversold, undersold, over_limit and drift
//	orders.go    the checks lost, unannounced and duplicates
//	answers.go   the check wrong_answer
//	feed.go      the feed of changes, and the checks untold, backwards and invented
//	history.go   the check history
//	verdict.go   the output: violations, gaps and figures
package judge
