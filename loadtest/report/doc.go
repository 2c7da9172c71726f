// Package report writes results: as text for people, as JSON for machines, and
// as HTML with charts. It has the tables, number formats and charts that all
// reports of this project share, and the report on a sale under attack.
//
// For any report:
//
//	writer.go       lines and tables, JSON, files
//	numbers.go      numbers, durations, percentiles
//
// The report on a sale:
//
//	report.go       New: the verdict and the figures
//	reports.go      the same for several sales that shared an attack
//	text.go         for people
//	json.go         for machines: names and order of the fields are fixed
//	html.go         as a page; chart.go with its axes, stock_chart.go and latency_chart.go draw on it
package report
