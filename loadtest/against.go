package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Earlier is a run that was saved: its reports for machines, and what was
// played, so that only like is compared with like.
type Earlier struct {
	path    string
	Started time.Time         `json:"started"`
	Setup   map[string]string `json:"setup"`
	Sales   []document        `json:"sales"`
}

// SaveRun writes the run to path, for a later one to be compared with.
func (all *Reports) SaveRun(path string) error {
	e := Earlier{Started: all.Started.UTC().Truncate(time.Second), Setup: all.Config.setup(), Sales: all.documents()}
	err := save(path, func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(e)
	})
	if err != nil {
		return fmt.Errorf("loadtest: save the run: %w", err)
	}
	return nil
}

// ReadRun reads what SaveRun wrote.
func ReadRun(path string) (*Earlier, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("loadtest: read an earlier run: %w", err)
	}
	e := Earlier{path: path}
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("loadtest: read an earlier run: %s: %w", path, err)
	}
	if len(e.Sales) == 0 {
		return nil, fmt.Errorf("loadtest: read an earlier run: %s has no report of a sale in it", path)
	}
	return &e, nil
}

// setup is what the figures of a run depend on, by name.
func (c Config) setup() map[string]string {
	var sales []string
	for _, s := range c.sales() {
		sale := fmt.Sprintf("%s, at most %d per buyer", plural(s.Stock, "unit"), s.PerBuyerLimit)
		if len(c.Sales) > 1 {
			sale += fmt.Sprintf(", weight %g", s.Weight)
		}
		sales = append(sales, sale)
	}
	return map[string]string{
		"scenario": c.Scenario, "sales": strings.Join(sales, "; "), "attack": c.schedule(),
		"buyers": fmt.Sprint(c.Buyers), "zipf": fmt.Sprint(c.Zipf), "max quantity": fmt.Sprint(c.MaxQuantity),
		"replays": fmt.Sprint(c.Replays), "second orders": fmt.Sprint(c.SecondOrders),
		"cancels": fmt.Sprint(c.Cancels), "payments": fmt.Sprint(c.Payments),
		"payment window": c.PaymentWindow.String(), "timeout": c.Timeout.String(), "seed": fmt.Sprint(c.Seed),
		"strategy": c.Strategy, "stores": c.Stores, "reserve on": c.ReserveOn,
		"load test's machine": fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, plural(runtime.NumCPU(), "processor")),
	}
}

// same is how far apart, as a share, two figures may be and still be called the
// same. One run does not repeat another to more than that.
const same = 0.05

// figure is one row of the comparison.
type figure struct {
	name      string
	then, now float64
	more      bool // is better
	show      func(float64) string
}

// figures pairs those of a sale then and now.
func figures(then, now document) []figure {
	rate := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	latency := func(v float64) string { return human(time.Duration(v * float64(time.Millisecond))) }
	list := []figure{
		{"accepted/s", then.AcceptedPerS, now.AcceptedPerS, true, rate},
		{"durable/s", then.DurablePerS, now.DurablePerS, true, rate},
		{"p50", then.LatencyMS.P50, now.LatencyMS.P50, false, latency},
		{"p90", then.LatencyMS.P90, now.LatencyMS.P90, false, latency},
		{"p99", then.LatencyMS.P99, now.LatencyMS.P99, false, latency},
		{"max", then.LatencyMS.Max, now.LatencyMS.Max, false, latency},
		{"restore p50", then.RestoreMS.P50, now.RestoreMS.P50, false, latency},
		{"restore p99", then.RestoreMS.P99, now.RestoreMS.P99, false, latency},
	}
	count := func(name string, then, now int) {
		if then != 0 || now != 0 {
			list = append(list, figure{name, float64(then), float64(now), false, rate})
		}
	}
	count("no answer", then.Answers["0"], now.Answers["0"])
	count("503", then.Answers["503"], now.Answers["503"])
	count(Oversold, then.Oversold, now.Oversold)
	count(Undersold, then.Undersold, now.Undersold)
	count(Lost, then.Lost, now.Lost)
	count(Unannounced, then.Unannounced, now.Unannounced)
	count(Duplicates, then.Duplicates, now.Duplicates)
	count(OverLimit, then.OverLimit, now.OverLimit)
	return list
}

// ratio is now to then, and which is better.
func (f figure) ratio() (ratio, which string) {
	if f.then == 0 || f.now == 0 {
		ratio = "-"
	} else {
		ratio = fmt.Sprintf("%.2f", f.now/f.then)
	}
	switch {
	case f.then == f.now || f.then != 0 && f.now/f.then > 1-same && f.now/f.then < 1+same:
		return ratio, "same"
	case f.now > f.then == f.more:
		return ratio, "better"
	}
	return ratio, "worse"
}

// word is the verdict of a document in capitals.
func (d document) word() string {
	switch {
	case d.Pass:
		return words[ExitPass]
	case len(d.Violations) > 0:
		return words[ExitViolation]
	}
	return words[ExitUnjudged]
}

// WriteAgainst writes the run's figures beside those of an earlier one, with a
// warning where something else was played.
func (all *Reports) WriteAgainst(w io.Writer, earlier *Earlier) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Against %s, run at %s:\n", earlier.path, earlier.Started.UTC().Format("2006-01-02 15:04:05 MST"))
	setup := all.Config.setup()
	for _, name := range slices.Sorted(maps.Keys(setup)) {
		if then, now := earlier.Setup[name], setup[name]; then != now {
			fmt.Fprintf(&b, "  WARNING: not the same %s: %s then, %s now\n", name, orNone(then), orNone(now))
		}
	}
	if len(all.Sales) != len(earlier.Sales) {
		fmt.Fprintf(&b, "  %s then, %d now: nothing to compare\n", plural(len(earlier.Sales), "sale"), len(all.Sales))
	} else {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		for i, now := range all.documents() {
			then := earlier.Sales[i]
			heading := ""
			if len(all.Sales) > 1 {
				heading = all.Sales[i].Name
			}
			fmt.Fprintf(t, "%s\tthen\tnow\tratio\t \t\n", heading)
			fmt.Fprintf(t, "verdict\t%s\t%s\t\t\t\n", then.word(), now.word())
			for _, f := range figures(then, now) {
				ratio, which := f.ratio()
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", f.name, f.show(f.then), f.show(f.now), ratio, which)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(&b, "same: within %.0f %%. Two runs of the same differ by more than that on a busy machine.\n", 100*same)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("loadtest: write the comparison: %w", err)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
