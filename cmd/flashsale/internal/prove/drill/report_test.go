package drill

import (
	"errors"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

func rowOf(t *testing.T, name string, v judge.Verdict) Row {
	t.Helper()
	r := Row{Name: name, Done: []string{"1.0s harm"}}
	r.judge(&report.Report{Verdict: v, Evidence: judge.Evidence{Requests: []judge.Request{yes("a", 1.5)}}, Attempts: 1000, Answers: map[string]int{"201": 900, "503": 12, "0": 3}}, 2*time.Second)
	r.breaks(nil)
	return r
}

// The exit status is the load test's: a violation outweighs everything.
func TestExitCode(t *testing.T) {
	pass := rowOf(t, "a", judge.Verdict{})
	fail := rowOf(t, "b", judge.Verdict{Violations: []judge.Violation{{Name: "oversold", Count: 1, Detail: "1 unit too many"}}})
	open := rowOf(t, "c", judge.Verdict{Gaps: []judge.Gap{{Checks: []string{"lost"}, Why: "it was dark"}}})
	broken := Row{Name: "d"}
	broken.fail(errors.New("no servers"))
	for _, c := range []struct {
		rows []Row
		want int
	}{
		{nil, 0}, {[]Row{pass}, 0}, {[]Row{pass, fail, pass}, 1}, {[]Row{pass, open}, 2},
		{[]Row{open, fail}, 1}, {[]Row{fail, open}, 1}, {[]Row{pass, broken}, 2}, {[]Row{broken, fail}, 1},
	} {
		if got := (&Report{Drills: c.rows}).ExitCode(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.rows, got, c.want)
		}
	}
	var out strings.Builder
	if err := (&Report{Seed: 42, Drills: []Row{pass, fail, open, broken}}).WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed 42", "1.50s", "1.5 %", "1.0s harm", "PASS", "FAIL", "NOT JUDGED", "ERROR", "oversold: 1 unit too many", "it was dark", "no servers"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// What the drill itself has seen breaks a promise, whatever the verdict says.
func TestBreaks(t *testing.T) {
	r := rowOf(t, "a", judge.Verdict{Gaps: []judge.Gap{{Checks: []string{"lost"}, Why: "it was dark"}}})
	if r.Verdict != "NOT JUDGED" {
		t.Errorf("nothing seen, and yet %s", r.Verdict)
	}
	r.breaks([]string{"fence: it came late"})
	if r.Verdict != "FAIL" || (&Report{Drills: []Row{r}}).ExitCode() != 1 || r.Violations[0] != "fence: it came late" || len(r.Violations) != 2 {
		t.Errorf("%+v", r)
	}
}

// A seed means the same timing for a drill, run alone or with others, and
// another timing for another drill or seed.
func TestSeed(t *testing.T) {
	moment := func(name string, seed int64) time.Duration {
		a := &attack{random: (&fault{name: name}).numbers(seed)}
		return a.between(0, time.Hour)
	}
	first, again := moment("node-killed", 1), moment("node-killed", 1)
	if first != again {
		t.Error("the same seed, another timing")
	}
	if first == moment("node-killed", 2) || first == moment("node-stopped", 1) {
		t.Error("another seed or drill, the same timing")
	}
}

// Every drill says what the failure table says. Every fault does something.
func TestCatalogueIsComplete(t *testing.T) {
	known := map[string]bool{}
	for _, f := range catalogue {
		if f.happens == "" || f.do == nil || (f.sees == "") != (f.never == "") || f.sees == "" && !f.inStorm() || known[f.name] {
			t.Errorf("%s: %+v", f.name, f)
		}
		known[f.name] = true
	}
}
