package report

import (
	"errors"
	"io"
	"path/filepath"
	"time"

	"flashsale/loadtest/judge"
)

// Reports contains the reports of all sales of one load test.
type Reports struct {
	Config
	Sales   []*Report
	Started time.Time
	Took    time.Duration // duration of the whole run
}

// ExitCode returns the exit code of all verdicts together: ExitViolation if any sale has a
// violation, otherwise ExitUnjudged if any sale was not judged.
func (all *Reports) ExitCode() int {
	code := judge.ExitPass
	for _, rep := range all.Sales {
		switch rep.ExitCode() {
		case judge.ExitViolation:
			return judge.ExitViolation
		case judge.ExitUnjudged:
			code = judge.ExitUnjudged
		}
	}
	return code
}

// Word returns the verdict on all sales in capitals.
func (all *Reports) Word() string { return judge.Word(all.ExitCode()) }

// Summary returns the verdict on all sales as a sentence.
func (all *Reports) Summary() string {
	attempts, units, broken := 0, 0, 0
	buyers := map[string]bool{}
	for _, rep := range all.Sales {
		attempts, units = attempts+rep.Attempts, units+rep.Total
		if rep.ExitCode() == judge.ExitViolation {
			broken++
		}
		for _, q := range rep.Evidence.Requests {
			if q.Attack {
				buyers[q.Buyer] = true
			}
		}
	}
	what := judge.Sprintf("%s wanted %s of %s in %s: ",
		judge.Plural(len(buyers), "buyer"), judge.Plural(units, "unit"), judge.Plural(len(all.Sales), "sale"), judge.Plural(attempts, "order"))
	return what + ending(all.ExitCode(), "promises broken in "+judge.Plural(broken, "sale")+".")
}

// WriteText writes the reports as text. With several sales, the text begins with a table of them.
func (all *Reports) WriteText(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteText(w)
	}
	var t Text
	t.Line("VERDICT: %s\n  %s\n  %s\n", all.Word(), all.Summary(), all.Schedule)
	t.Row("  sale", "verdict", "sold", "orders", "accepted/s", "durable/s", "p99")
	for _, rep := range all.Sales {
		t.Row("  "+rep.SKU, rep.Word(), judge.Sprintf("%d of %d", rep.Sold(), rep.Total), judge.Sprintf("%d", rep.Attempts),
			Thousands(rep.AcceptedPerS), Thousands(rep.DurablePerS), Human(rep.Latency.P99))
	}
	t.Line("")
	for _, fact := range all.Facts() {
		t.Row("  "+fact[0], fact[1])
	}
	for _, rep := range all.Sales {
		t.Line("")
		rep.addTo(&t, rep.SKU, rep.facts())
	}
	return t.Write(w)
}

// WriteJSON writes one JSON object: the report of a single sale, or
// {"pass","verdict","sales":[report,...]} for several sales.
func (all *Reports) WriteJSON(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteJSON(w)
	}
	var sales []document
	for _, rep := range all.Sales {
		sales = append(sales, rep.document())
	}
	return JSON(w, struct {
		Pass    bool       `json:"pass"`
		Verdict string     `json:"verdict"`
		Sales   []document `json:"sales"`
	}{all.ExitCode() == judge.ExitPass, all.Word(), sales})
}

// Save writes report.html, report.json and report.txt into dir, which it creates if necessary. With
// several sales, these files cover all of them, and each sale also has a folder, named after its
// SKU, with its own report.
func (all *Reports) Save(dir string) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].Save(dir)
	}
	var faults []error
	for _, rep := range all.Sales {
		faults = append(faults, rep.Save(filepath.Join(dir, rep.SKU)))
	}
	return errors.Join(append(faults, Save(dir, map[string]func(io.Writer) error{
		"report.html": all.WriteHTML, "report.json": all.WriteJSON, "report.txt": all.WriteText,
	}))...)
}
