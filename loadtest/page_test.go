package loadtest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

func TestHTMLReportLoadsNothing(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{lose: true})
	rep := mustRun(t, quick(url), judge.ExitViolation)
	rep.Notes = append(rep.Notes, `<script>alert("note")</script>`)
	dir := t.TempDir()
	check.Must(t, rep.Save(dir))
	for _, name := range []string{"report.html", "report.json", "report.txt"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("file %s of the report: got error %v or an empty file, want content", name, err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "report.html"))
	check.Must(t, err)
	contains(t, string(got), "<h1>FAIL</h1>", "<b>lost</b>", `class="line p99"`, `--c: var(--accepted)`)
	if bytes.Contains(got, []byte(`<script>alert("note")`)) {
		t.Error("note in the report: got unescaped HTML, want it escaped")
	}
	if outside := regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:)?//|url\(\s*["']?(https?:)?//|@import`).Find(got); outside != nil {
		t.Errorf("report.html: got the reference %s, want no reference to other hosts", outside)
	}
}
