// Package report writes reports as text, as JSON, and as HTML pages with charts. It contains the
// tables, number formats and charts that all reports share, and the report of a load test.
//
// Files for all reports:
//
//	writer.go       lines and tables, JSON, files
//	numbers.go      numbers, durations, percentiles
//
// Files for the report of a load test:
//
//	report.go       New: the verdict and the figures of one sale
//	reports.go      several sales of one load test
//	text.go         text
//	json.go         JSON; the names and the order of the fields are fixed
//	html.go         the page
//	chart.go        axes; stock_chart.go and latency_chart.go contain the charts
package report
