package gallery

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers/servertest/check"
)

// Each variant has a file of its name, which explains it under fixed headings.
func TestVariantsAreFiles(t *testing.T) {
	base := []string{"shop.go", "tables.go", "close.go", "counter.go", "transaction.go"}
	files, err := filepath.Glob("variants/*.go")
	check.Must(t, err)
	named := map[string]variants.Variant{}
	for _, v := range variants.All() {
		named[strings.ReplaceAll(v.Name, "-", "_")+".go"] = v
	}
	for _, path := range files {
		file := filepath.Base(path)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		v, ok := named[file]
		delete(named, file)
		if !ok {
			if !slices.Contains(base, file) {
				t.Errorf("file %s: got no variant, want one", file)
			}
			continue
		}
		text, err := os.ReadFile(path)
		check.Must(t, err)
		words := []string{"// What breaks it:", "// Right:", "THE MISTAKE:"}
		if !v.Broken() {
			words = []string{"// It is right", "// Instead:"}
		}
		mistakes, _ := filepath.Glob(strings.TrimSuffix(path, ".go") + ".lua")
		for _, lua := range mistakes {
			more, err := os.ReadFile(lua)
			check.Must(t, err)
			text = append(text, more...)
		}
		for _, word := range words {
			if !bytes.Contains(text, []byte(word)) {
				t.Errorf("file %s: got no text %q", file, word)
			}
		}
		if v.Does == "" || v.Source == "" || v.Broken() != (v.Breaks != "") || v.New == nil {
			t.Errorf("file %s: got the incomplete variant %+v", file, v)
		}
	}
	for file := range named {
		t.Errorf("file %s: got none, want one for its variant", file)
	}
}

// The verdicts of the trials decide the verdict and the exit code of a row.
func TestRowVerdicts(t *testing.T) {
	verdict := func(unexercised []judge.Gap, violations ...string) *report.Report {
		v := &report.Report{}
		v.Unexercised = unexercised
		for _, name := range violations {
			v.Violations = append(v.Violations, judge.Violation{Name: name})
		}
		return v
	}
	never := []judge.Gap{{Checks: []string{"sell-out"}, Why: "no buyer was refused"}}
	for _, c := range []struct {
		name     string
		caught   string
		trials   []*report.Report
		expected bool
		said     string
	}{
		{"right, passes", "", []*report.Report{verdict(nil), verdict(nil)}, true, "PASS"},
		{"right, one trial exercised the check", "", []*report.Report{verdict(nil), verdict(never)}, true, "PASS"},
		{"right, no trial exercised the check", "", []*report.Report{verdict(never), verdict(never)}, false, "NOT JUDGED"},
		{"right, fails", "", []*report.Report{verdict(nil), verdict(nil, "drift")}, false, "FAIL: drift"},
		{"broken, expected violation", "oversold", []*report.Report{verdict(nil), verdict(nil, "oversold")}, true, "FAIL: oversold"},
		{"broken, other violation", "oversold", []*report.Report{verdict(nil, "drift"), verdict(nil)}, false, "FAIL: drift"},
		{"broken, passes", "oversold", []*report.Report{verdict(nil), verdict(nil)}, false, "PASS"},
	} {
		row := NewRow(variants.Variant{Name: c.name, Caught: c.caught})
		row.judged(c.trials)
		if row.AsExpected() != c.expected || row.VerdictText() != c.said {
			t.Errorf("row %s: got AsExpected %v, verdict %q, want %v, %q", c.name, row.AsExpected(), row.VerdictText(), c.expected, c.said)
		}
		report := Report{Rows: []Row{row}}
		if want := map[bool]int{true: 0, false: 1}[c.expected]; report.ExitCode() != want {
			t.Errorf("report with row %s: got exit code %d, want %d", c.name, report.ExitCode(), want)
		}
	}
	row := NewRow(variants.Variant{Name: "gone"})
	row.Error = "no server"
	if report := (Report{Rows: []Row{row}}); report.ExitCode() != judge.ExitUnjudged {
		t.Errorf("report of a row that is not judged: got exit code %d, want %d", report.ExitCode(), judge.ExitUnjudged)
	}
}

func TestReportIsWritten(t *testing.T) {
	r := &Report{Stores: "Redis, MariaDB", Cores: 2, Rounds: 1, Rate: 2500, Command: "flashsale compare --report <dir>"}
	for _, v := range All() {
		row := NewRow(v)
		row.Rounds, row.Leaked, row.DurablePerS, row.P99MS = 1, 1983, 6474.4, 261.4
		if v.Broken() {
			row.Failed, row.ByItsOwn, row.Violations = 1, 1, []string{v.Caught}
		} else {
			row.Passed = 1
		}
		r.Rows = append(r.Rows, row)
	}
	for _, c := range []struct {
		write func(io.Writer) error
		words []string
	}{
		{r.WriteText, []string{"row-per-unit", "FAIL: over_limit", "decrement-on-payment: its orders promise no units"}},
		{r.WriteJSON, []string{`"caught": "undersold"`, `"note": "its orders`, `"leaked": 1983`, `"durable_per_s": 6474.4`}},
		{r.WriteHTML, []string{"As expected", "FAIL: over_limit", "1,983", "6,474", "261ms", "by 2,500 orders/s", "Redis, MariaDB", "--report &lt;dir&gt;"}},
	} {
		var text strings.Builder
		check.Must(t, c.write(&text))
		for _, word := range c.words {
			if !strings.Contains(text.String(), word) {
				t.Errorf("text of the report: got no %q in\n%s", word, &text)
			}
		}
	}
	dir := t.TempDir()
	check.Must(t, r.Save(dir))
	if files, _ := filepath.Glob(dir + "/compare.*"); len(files) != 3 {
		t.Errorf("files of the report: got %v, want HTML, JSON and text", files)
	}
}
