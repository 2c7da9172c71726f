package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"flashsale/loadtest/judge"
)

// pageFiles are the page for one sale, the page for several, and their parts.
//
//go:embed report.html reports.html stock_chart.html facts.html
var pageFiles embed.FS

//go:embed report.css
var css template.CSS

var pages = Pages(pageFiles)

// Pages are templates of pages that look alike. They may use css, the style;
// human, for a duration; count, for an int; and thousands, for a float64.
func Pages(files fs.FS) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"css": func() template.CSS { return css }, "human": Human, "thousands": Thousands,
		"count": func(n int) string { return judge.Sprintf("%d", n) },
	}).ParseFS(files, "*"))
}

// WriteHTML writes the report as one page that needs no other file: the verdict,
// then figures and charts.
func (rep *Report) WriteHTML(w io.Writer) error {
	type reason struct {
		Name, Class string
		N           int
		Percent     float64
	}
	view := struct {
		*Report
		Title, Class string
		Summary      string
		Checks       []check
		Facts        [][2]string
		Reasons      []reason
		Columns      columns
		StockChart   stockChart
		LatencyChart latencyChart
	}{
		Report: rep, Title: rep.Word(), Checks: rep.checks(),
		Facts:   slices.Concat(rep.facts(), rep.Setup.facts()),
		Class:   classes[rep.ExitCode()],
		Summary: rep.summary(),
		Columns: rep.columns(), StockChart: rep.stockChart(), LatencyChart: rep.latencyChart(),
	}
	for _, name := range ByCount(rep.Reasons) {
		n := rep.Reasons[name]
		status, _ := strconv.Atoi(strings.Fields(name)[0])
		view.Reasons = append(view.Reasons, reason{inWords(name), meanings[meaning(status)], n, Round(100*float64(n)/float64(rep.Attempts), 1)})
	}
	if err := pages.ExecuteTemplate(w, "report.html", view); err != nil {
		return fmt.Errorf("loadtest: write the HTML report: %w", err)
	}
	return nil
}

// classes colour a verdict.
var classes = [...]string{judge.ExitPass: "pass", judge.ExitViolation: "fail", judge.ExitUnjudged: "open"}

// WriteHTML writes a page about all sales, with a link to the page of each, as
// Save names it.
func (all *Reports) WriteHTML(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteHTML(w)
	}
	type sale struct {
		*Report
		Class      string
		Sold       int // units
		StockChart stockChart
	}
	view := struct {
		*Reports
		Title, Class, Summary string
		Facts                 [][2]string
		Each                  []sale
	}{Reports: all, Facts: all.facts(), Title: all.Word(), Class: classes[all.ExitCode()], Summary: all.summary()}
	for _, rep := range all.Sales {
		view.Each = append(view.Each, sale{rep, classes[rep.ExitCode()], rep.Pending + rep.Paid, rep.stockChart()})
	}
	if err := pages.ExecuteTemplate(w, "reports.html", view); err != nil {
		return fmt.Errorf("loadtest: write the HTML report: %w", err)
	}
	return nil
}

// Save writes report.html, report.json and report.txt into dir, which it creates
// if need be. If no order of events explains the history, it writes history.html
// too.
func (rep *Report) Save(dir string) error {
	files := map[string]func(io.Writer) error{
		"report.html": rep.WriteHTML, "report.json": rep.WriteJSON, "report.txt": rep.WriteText,
	}
	if rep.NotLinearizable > 0 {
		files["history.html"] = func(w io.Writer) error { return judge.WriteHistory(w, rep.Evidence) }
	}
	return Save(dir, files)
}
