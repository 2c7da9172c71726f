package loadtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// Reports are what one attack came to: one report for each of its sales.
type Reports struct {
	Config  Config // as it was played
	Sales   []*Report
	Started time.Time
	Took    time.Duration // the whole run
}

// ExitCode is that of all verdicts together: a violation of one outweighs what
// could not be judged of another.
func (all *Reports) ExitCode() int {
	code := ExitPass
	for _, rep := range all.Sales {
		switch rep.ExitCode() {
		case ExitViolation:
			return ExitViolation
		case ExitUnjudged:
			code = ExitUnjudged
		}
	}
	return code
}

// Word is the verdict over all in capitals.
func (all *Reports) Word() string { return words[all.ExitCode()] }

// summary is the verdict over all in one sentence.
func (all *Reports) summary() string {
	attempts, units, broken := 0, 0, 0
	buyers := map[string]bool{}
	for _, rep := range all.Sales {
		attempts, units = attempts+rep.Attempts, units+rep.Total
		if rep.ExitCode() == ExitViolation {
			broken++
		}
		for _, q := range rep.evidence.Requests {
			if q.Attack {
				buyers[q.Buyer] = true
			}
		}
	}
	what := fmt.Sprintf("%s wanted %s of %s in %s: ",
		plural(len(buyers), "buyer"), plural(units, "unit"), plural(len(all.Sales), "sale"), plural(attempts, "order"))
	switch all.ExitCode() {
	case ExitPass:
		return what + "every promise was kept."
	case ExitViolation:
		return what + fmt.Sprintf("promises broken in %s.", plural(broken, "sale"))
	}
	return what + "no promise was seen broken, but not every one was put to the test."
}

// WriteText writes the reports for people: where there are several, a line each
// before them.
func (all *Reports) WriteText(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteText(w)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "VERDICT: %s\n  %s\n  %s\n\n", all.Word(), all.summary(), all.Config.schedule())
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  sale\tverdict\tsold\torders\taccepted/s\tdurable/s\tp99")
	for _, rep := range all.Sales {
		fmt.Fprintf(t, "  %s\t%s\t%d of %d\t%d\t%.0f\t%.0f\t%s\n", rep.SKU, rep.Word(), rep.Pending+rep.Paid, rep.Total,
			rep.Attempts, rep.AcceptedPerS, rep.DurablePerS, human(rep.Latency.P99))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("loadtest: write the text report: %w", err)
	}
	for _, rep := range all.Sales {
		if _, err := fmt.Fprintln(w); err != nil {
			return fmt.Errorf("loadtest: write the text report: %w", err)
		}
		if err := rep.writeText(w, rep.SKU); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes one JSON object on one line: of one sale its report, of
// several {"pass","sales":[report,...]}.
func (all *Reports) WriteJSON(w io.Writer) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].WriteJSON(w)
	}
	return writeJSON(w, struct {
		Pass  bool       `json:"pass"`
		Sales []document `json:"sales"`
	}{all.ExitCode() == ExitPass, all.documents()})
}

func (all *Reports) documents() []document {
	var list []document
	for _, rep := range all.Sales {
		list = append(list, rep.document())
	}
	return list
}

// Save writes report.html, report.json and report.txt into dir, which it
// creates if need be. Where there are several sales these are about all, and
// each sale has a folder by the name of its SKU with its own.
func (all *Reports) Save(dir string) error {
	if len(all.Sales) == 1 {
		return all.Sales[0].Save(dir)
	}
	var faults []error
	for _, rep := range all.Sales {
		faults = append(faults, rep.Save(filepath.Join(dir, rep.SKU)))
	}
	return errors.Join(append(faults, saveAll(dir, map[string]func(io.Writer) error{
		"report.html": all.WriteHTML, "report.json": all.WriteJSON, "report.txt": all.WriteText,
	}))...)
}

// saveAll writes files into dir, which it creates if need be.
func saveAll(dir string, files map[string]func(io.Writer) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("loadtest: save the report: %w", err)
	}
	for name, write := range files {
		if err := save(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("loadtest: save the report: %w", err)
		}
	}
	return nil
}
