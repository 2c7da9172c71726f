package loadtest

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed report.html
var reportPage string

var pageTemplate = template.Must(template.New("report.html").
	Funcs(template.FuncMap{"human": human, "plural": plural}).Parse(reportPage))

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
		Strip        strip
		Plot         string
	}{
		Report: rep, Title: rep.Word(), Checks: rep.checks(), Facts: rep.facts(),
		Class:   [...]string{ExitPass: "pass", ExitViolation: "fail", ExitUnjudged: "open"}[rep.ExitCode()],
		Summary: rep.summary(),
		Units:   rep.unitsBar(), Columns: rep.columns(),
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
	if err := pageTemplate.Execute(w, view); err != nil {
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
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("loadtest: save the report: %w", err)
	}
	files := map[string]func(io.Writer) error{
		"report.html": rep.WriteHTML, "report.json": rep.WriteJSON, "report.txt": rep.WriteText,
	}
	if rep.Inexplicable > 0 {
		files["history.html"] = rep.WriteHistory
	}
	for name, write := range files {
		if err := save(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("loadtest: save the report: %w", err)
		}
	}
	return nil
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
