package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"flashsale/loadtest/judge"
)

// pageFiles contains the pages for one and for several sales, and their parts.
//
//go:embed report.html reports.html stock_chart.html parts.html
var pageFiles embed.FS

//go:embed report.css
var css template.CSS

var writePage = Pages(pageFiles)

// Pages parses the HTML templates in files, and returns a function that executes the template name
// with data. The templates may use the template "head", which is the page up to its title, and the
// functions human for a duration, count for an int, and thousands for a float64.
func Pages(files fs.FS) func(w io.Writer, name string, data any) error {
	pages := template.Must(template.New("").Funcs(template.FuncMap{
		"css": func() template.CSS { return css }, "human": Human, "thousands": Thousands,
		"count": func(n int) string { return judge.Sprintf("%d", n) },
	}).ParseFS(pageFiles, "*"))
	template.Must(pages.ParseFS(files, "*"))
	return func(w io.Writer, name string, data any) error {
		if err := pages.ExecuteTemplate(w, name, data); err != nil {
			return fmt.Errorf("write the page %s: %w", name, err)
		}
		return nil
	}
}

// WriteHTML writes the report as a self-contained page.
func (rep *Report) WriteHTML(w io.Writer) error { return writePage(w, "report.html", rep) }

// WriteHTML writes a page about all sales. It links the page of each sale at the path at which Save
// writes it.
func (all *Reports) WriteHTML(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteHTML(w)
	}
	return writePage(w, "reports.html", all)
}

// classes contains the CSS class of each verdict.
var classes = [...]string{judge.ExitPass: "pass", judge.ExitViolation: "fail", judge.ExitUnjudged: "open"}

// Class returns the CSS class of the verdict.
func (rep *Report) Class() string { return classes[rep.ExitCode()] }

// Class returns the CSS class of the verdict on all sales.
func (all *Reports) Class() string { return classes[all.ExitCode()] }

// Share is the share of one kind of answer.
type Share struct {
	Name, Class, Meaning string
	N                    int
	Percent              float64
}

// meanings explains the answers to orders.
var meanings = map[string]string{
	"0":                "no answer before the timeout",
	"201":              "accepted: the order is durable",
	"201 replayed":     "the order of an earlier request with the same key",
	"202":              "received: the order is not decided yet",
	"409 sold_out":     "fewer units are left than the order needs",
	"409 buyer_limit":  "the buyer would have too many units or orders",
	"409 closed":       "the sale is over",
	"409 not_open":     "the sale has not opened",
	"429 rate_limited": "too many requests from one buyer or address",
	"503 unavailable":  "the server cannot decide now, so the buyer tries again",
}

// Shares returns the kinds of answers, the most frequent first.
func (rep *Report) Shares() (list []Share) {
	for _, name := range ByCount(rep.Reasons) {
		n := rep.Reasons[name]
		status, _ := strconv.Atoi(strings.Fields(name)[0])
		list = append(list, Share{inWords(name), statusClass(status), cmp.Or(meanings[name], statusClass(status)), n, Round(100*float64(n)/float64(rep.Attempts), 1)})
	}
	return list
}

// statusClass returns the CSS class of answers with the given status.
func statusClass(status int) string {
	switch {
	case status/100 == 2:
		return "accepted"
	case status == 429:
		return "limited"
	case status >= 300 && status < 500:
		return "refused"
	}
	return "failed"
}

// Save writes report.html, report.json and report.txt into dir, which it creates if necessary. If
// the history is not linearizable, Save also writes history.html.
func (rep *Report) Save(dir string) error {
	files := map[string]func(io.Writer) error{
		"report.html": rep.WriteHTML, "report.json": rep.WriteJSON, "report.txt": rep.WriteText,
	}
	if rep.NotLinearizable > 0 {
		files["history.html"] = func(w io.Writer) error { return judge.WriteHistory(w, rep.Evidence) }
	}
	return Save(dir, files)
}
