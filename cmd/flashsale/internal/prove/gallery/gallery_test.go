package gallery

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// onEmbedded are judged on the embedded stores as well, one for each way to go
// wrong that does not need a slow database or row locks.
var onEmbedded = []string{"quantity-ignored", "leak-on-restore", ours}

// Every broken variant is caught by its own violation, and every right one
// passes the very same attack and harm.
func TestVerdicts(t *testing.T) {
	servertest.Each(t, func(t *testing.T, first *servers.Stores) {
		// Much of a judgement is waiting: so many side by side keep two cores busy.
		room := make(chan struct{}, 4)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, v := range all() {
			if first.Kind == servers.KindEmbedded && !slices.Contains(onEmbedded, v.Name) {
				continue
			}
			wg.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				row := judged(t, first.Kind, v)
				for again := 2; again > 0 && row.Failed+row.Passed == 0; again-- { // the machine was too busy for a verdict
					t.Logf("%s: %s, once more: %s%s", v.Name, row.said(), row.Error, strings.Join(row.Details, "\n"))
					row = judged(t, first.Kind, v)
				}
				mu.Lock()
				defer mu.Unlock()
				t.Logf("%s: %s", v.Name, row.said())
				if !row.AsExpected() {
					t.Errorf("%s: want %q, got %s\n%s%s", v.Name, v.Caught, row.said(), row.Error, strings.Join(row.Details, "\n"))
				}
			})
		}
		wg.Wait()
	})
}

// judged judges a variant on empty stores.
func judged(t *testing.T, kind string, v variants.Variant) Row {
	stores := servertest.Open(t, kind)
	row := newRow(v)
	cfg := Config{Rate: 60, Seed: 1, search: 100 * time.Millisecond}
	if v.Broken() {
		cfg.acts = []string{caughtIn(v.Name)}
	}
	verdicts, err := Judge(t.Context(), cfg, v, stores.RedisURL, stores.SQL)
	if err != nil {
		row.Error = err.Error()
	} else {
		row.judged(verdicts)
	}
	return row
}

// caughtIn is the act that a broken variant does not get through.
func caughtIn(name string) string {
	if name == "leak-on-restore" || name == "marker-first" || name == "unguarded-close" {
		return "crashes"
	}
	return "rush"
}

// Each variant is a file named like it, and says what a reader wants to know.
func TestVariantsAreFiles(t *testing.T) {
	base := []string{"shop.go", "tables.go", "close.go", "counter.go", "transaction.go"}
	files, err := filepath.Glob("variants/*.go")
	if err != nil {
		t.Fatal(err)
	}
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
				t.Errorf("%s shows no variant", file)
			}
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		words := []string{"// What breaks it:", "// Right:", "THE MISTAKE:"}
		if !v.Broken() {
			words = []string{"// It is right", "// Instead:"}
		}
		mistakes, _ := filepath.Glob(strings.TrimSuffix(path, ".go") + ".lua")
		for _, lua := range mistakes {
			more, err := os.ReadFile(lua)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, more...)
		}
		for _, word := range words {
			if !bytes.Contains(text, []byte(word)) {
				t.Errorf("%s does not say %q", file, word)
			}
		}
		if v.Does == "" || v.Source == "" || v.Broken() != (v.Breaks != "") || v.New == nil {
			t.Errorf("%s: %+v", file, v)
		}
	}
	for file := range named {
		t.Errorf("there is no %s", file)
	}
}

// What a run is made of decides what it says.
func TestRowsAreJudged(t *testing.T) {
	verdict := func(unexercised []string, violations ...string) *report.Report {
		v := &report.Report{}
		v.Unexercised = unexercised
		for _, name := range violations {
			v.Violations = append(v.Violations, judge.Violation{Name: name})
		}
		return v
	}
	never := []string{"sell-out"}
	for _, c := range []struct {
		name     string
		caught   string
		acts     []*report.Report
		expected bool
		said     string
	}{
		{"right, passes", "", []*report.Report{verdict(nil), verdict(nil)}, true, "PASS"},
		{"right, one act did not ask", "", []*report.Report{verdict(nil), verdict(never)}, true, "PASS"},
		{"right, no act asked", "", []*report.Report{verdict(never), verdict(never)}, false, "NOT JUDGED"},
		{"right, fails", "", []*report.Report{verdict(nil), verdict(nil, "drift")}, false, "FAIL: drift"},
		{"broken, caught", "oversold", []*report.Report{verdict(nil), verdict(nil, "oversold")}, true, "FAIL: oversold"},
		{"broken, by another", "oversold", []*report.Report{verdict(nil, "drift"), verdict(nil)}, false, "FAIL: drift"},
		{"broken, passes", "oversold", []*report.Report{verdict(nil), verdict(nil)}, false, "PASS"},
	} {
		row := newRow(variants.Variant{Name: c.name, Caught: c.caught})
		row.judged(c.acts)
		if row.AsExpected() != c.expected || row.said() != c.said {
			t.Errorf("%s: expected %v, said %q", c.name, row.AsExpected(), row.said())
		}
		report := Report{Rows: []Row{row}}
		if want := map[bool]int{true: 0, false: 1}[c.expected]; report.ExitCode() != want {
			t.Errorf("%s: exit code %d, want %d", c.name, report.ExitCode(), want)
		}
	}
	row := newRow(variants.Variant{Name: "gone"})
	row.Error = "no server"
	if report := (Report{Rows: []Row{row}}); report.ExitCode() != judge.ExitUnjudged {
		t.Errorf("not judged: exit code %d", report.ExitCode())
	}
}

func TestReportIsWritten(t *testing.T) {
	r := &Report{Stores: "Redis, MariaDB", Cores: 2, Rounds: 1, Callers: 8, SpeedSeconds: 1}
	for _, v := range all() {
		row := newRow(v)
		row.Rounds, row.DurablePerS = 1, 1000
		if v.Broken() {
			row.Failed, row.ByItsOwn, row.Violations = 1, 1, []string{v.Caught}
		} else {
			row.Passed = 1
		}
		if v.Name == ours {
			row.DurablePerS = 4321
		}
		r.Rows = append(r.Rows, row)
	}
	if ratio, than := r.Ratio(); ratio < 4.3 || ratio > 4.4 || than == "" {
		t.Errorf("%v times %s", ratio, than)
	}
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	for file, words := range map[string][]string{
		"compare.svg":  {"4,321", "row-per-unit", "FAIL: over_limit"},
		"compare.txt":  {"4,321", "4.3 times", "get-decr", "decrement-on-payment: its orders promise no units"},
		"compare.json": {`"caught":"undersold"`, `"note":"its orders`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if !bytes.Contains(text, []byte(word)) {
				t.Errorf("%s does not have %q", file, word)
			}
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is not JSON", file)
		}
	}
}
