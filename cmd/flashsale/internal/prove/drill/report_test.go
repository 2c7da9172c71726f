package drill

import (
	"errors"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

func rowOf(t *testing.T, name string, v judge.Verdict) Row {
	t.Helper()
	r := Row{Name: name, Done: []string{"1.0s fault"}}
	r.judge(&report.Report{Verdict: v, Evidence: judge.Evidence{Requests: []judge.Request{acceptance("a", 1.5)}}, Attempts: 1000, Answers: map[string]int{"201": 900, "503": 12, "0": 3}}, 2*time.Second)
	r.breaks(nil)
	return r
}

// A report has the exit code of its worst verdict. A violation is the worst.
func TestExitCode(t *testing.T) {
	pass := rowOf(t, "a", judge.Verdict{})
	fail := rowOf(t, "b", judge.Verdict{Violations: []judge.Violation{{Name: "oversold", Count: 1, Detail: "1 unit too many"}}})
	open := rowOf(t, "c", judge.Verdict{Gaps: []judge.Gap{{Checks: []string{"lost"}, Why: "it was dark"}}})
	broken := Row{Name: "d"}
	broken.fail(errors.New("no servers"))
	seen := rowOf(t, "e", judge.Verdict{Gaps: []judge.Gap{{Checks: []string{"lost"}, Why: "it was dark"}}})
	if seen.breaks([]string{"fence: it came late"}); seen.Verdict != "FAIL" || seen.Violations[0] != "fence: it came late" || len(seen.Violations) != 2 {
		t.Errorf("row with a violation found by the drill: got %+v, want FAIL with 2 violations", seen)
	}
	for _, c := range []struct {
		rows []Row
		want int
	}{
		{nil, 0}, {[]Row{pass}, 0}, {[]Row{pass, fail, pass}, 1}, {[]Row{pass, open}, 2},
		{[]Row{open, fail}, 1}, {[]Row{fail, open}, 1}, {[]Row{pass, broken}, 2}, {[]Row{broken, fail}, 1}, {[]Row{seen}, 1},
	} {
		if got := (&Report{Drills: c.rows}).ExitCode(); got != c.want {
			t.Errorf("rows %+v: got exit code %d, want %d", c.rows, got, c.want)
		}
	}
	var out strings.Builder
	if err := (&Report{Seed: 42, Drills: []Row{pass, fail, open, broken}}).WriteText(&out); err != nil {
		t.Fatalf("write the report: got error %v, want none", err)
	}
	for _, want := range []string{"seed 42", "1.50s", "1.5 %", "1.0s fault", "PASS", "FAIL", "NOT JUDGED", "ERROR", "oversold: 1 unit too many", "it was dark", "no servers"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("text of the report: got no %q in\n%s", want, out.String())
		}
	}
}

// A seed gives a drill the same timing in every run. Another drill or seed gives another
// timing.
func TestSeed(t *testing.T) {
	moment := func(name string, seed int64) time.Duration {
		return lab.RandomDuration((&fault{name: name}).numbers(seed), 0, time.Hour)
	}
	if a, b, c, d := moment("a", 1), moment("a", 1), moment("a", 2), moment("b", 1); a != b || a == c || a == d {
		t.Errorf("moments of a drill: got %v and %v for one seed, %v for another seed, %v for another drill, want equal only for one seed", a, b, c, d)
	}
}

// Every fault has a text and a function, and every drill has all texts.
func TestCatalogueIsComplete(t *testing.T) {
	known := map[string]bool{}
	for _, f := range catalogue {
		if f.happens == "" || f.do == nil || (f.sees == "") != (f.never == "") || f.sees == "" && !f.inStorm() || known[f.name] {
			t.Errorf("catalogue: the fault %s is incomplete or a duplicate: %+v", f.name, f)
		}
		known[f.name] = true
	}
}
