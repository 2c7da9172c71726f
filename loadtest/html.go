package loadtest

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
)

// The pages of one sale's report, and of several.
//
//go:embed report.html reports.html course.html report.css
var pageFiles embed.FS

var pages = template.Must(template.New("").
	Funcs(template.FuncMap{"human": human, "plural": plural, "css": css}).ParseFS(pageFiles, "*.html"))

func css() (template.CSS, error) {
	text, err := pageFiles.ReadFile("report.css")
	return template.CSS(text), err
}

// blend makes vegeta's page a part of the report: same ground, no heading of
// its own, and the reader's preference in place of its dark start. It goes in
// before the page's end and asks for what is on the page, not how it is made.
const blend = `<style>
:root { color-scheme: light dark; }
* { transition: none !important; }
body, body.dark, body.light { background: transparent; padding: 0; }
body .chart-container { background: transparent !important; border: 0 !important; padding: 0 !important; }
h1, #toggleTheme { display: none; }
.header { margin-bottom: 8px; }
</style><script>
if (!matchMedia('(prefers-color-scheme: dark)').matches) document.getElementById('toggleTheme')?.click();
</script></body>`

// WriteHTML writes the report as one page that loads nothing from anywhere:
// the verdict on top, then figures and charts, and vegeta's latency plot.
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
		Units        unitsBar
		Columns      columns
		Course       course
		Strip        strip
		Plot         string
	}{
		Report: rep, Title: rep.Word(), Checks: rep.checks(), Facts: rep.facts(),
		Class:   classes[rep.ExitCode()],
		Summary: rep.summary(),
		Units:   rep.unitsBar(), Columns: rep.columns(), Course: rep.course(),
		Plot: strings.Replace(string(rep.plot), "</body>", blend, 1),
	}
	if rep.Restore.N > 0 {
		view.Strip = rep.strip()
	}
	for _, name := range rep.byCount(rep.Reasons) {
		r := reason{Name: name, Class: reasonClass(name), N: rep.Reasons[name]}
		r.Percent = round(100*float64(r.N)/float64(max(rep.Attempts, 1)), 1)
		if name == "0" {
			r.Name = "no answer"
		}
		view.Reasons = append(view.Reasons, r)
	}
	if err := pages.ExecuteTemplate(w, "report.html", view); err != nil {
		return fmt.Errorf("loadtest: write the HTML report: %w", err)
	}
	return nil
}

// classes colour a verdict.
var classes = [...]string{ExitPass: "pass", ExitViolation: "fail", ExitUnjudged: "open"}

// WriteHTML writes a page over all sales, which loads nothing from anywhere and
// links to the page of each, where Save puts it.
func (all *Reports) WriteHTML(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteHTML(w)
	}
	type sale struct {
		*Report
		Class  string
		Sold   int // units
		Course course
	}
	view := struct {
		*Reports
		Title, Class, Summary, Schedule string
		Each                            []sale
	}{Reports: all, Title: all.Word(), Class: classes[all.ExitCode()], Summary: all.summary(), Schedule: all.Config.schedule()}
	for _, rep := range all.Sales {
		view.Each = append(view.Each, sale{rep, classes[rep.ExitCode()], rep.Pending + rep.Paid, rep.course()})
	}
	if err := pages.ExecuteTemplate(w, "reports.html", view); err != nil {
		return fmt.Errorf("loadtest: write the HTML report: %w", err)
	}
	return nil
}

// reasonClass colours an answer like the timeline does.
func reasonClass(reason string) string {
	switch {
	case strings.HasPrefix(reason, "2"):
		return "accepted"
	case strings.HasPrefix(reason, "429"):
		return "limited"
	case strings.HasPrefix(reason, "4"):
		return "refused"
	}
	return "failed"
}

// Save writes report.html, report.json and report.txt into dir, which it
// creates if need be; and history.html, where the history can't be explained.
func (rep *Report) Save(dir string) error {
	files := map[string]func(io.Writer) error{
		"report.html": rep.WriteHTML, "report.json": rep.WriteJSON, "report.txt": rep.WriteText,
	}
	if rep.Inexplicable > 0 {
		files["history.html"] = rep.WriteHistory
	}
	return saveAll(dir, files)
}

func save(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if fault := f.Close(); err == nil {
			err = fault // a full disk shows here
		}
	}()
	return write(f)
}
