package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"flashsale/loadtest/judge"
)

// Earlier is a saved run: its reports for machines, and the settings that its
// figures depend on.
type Earlier struct {
	path    string
	Started time.Time         `json:"started"`
	Setup   map[string]string `json:"setup"`
	Sales   []document        `json:"sales"`
}

// SaveRun writes the run to path, so that a later run can be compared with it.
func (all *Reports) SaveRun(path string) error {
	e := Earlier{Started: all.Started.UTC().Truncate(time.Second), Setup: all.Terms, Sales: all.documents()}
	err := saveFile(path, func(w io.Writer) error {
		out := encoder(w)
		out.SetIndent("", "  ")
		return out.Encode(e)
	})
	if err != nil {
		return fmt.Errorf("loadtest: save the run to %s: %w", path, err)
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

// same is the share by which two figures may differ and still be called the
// same. Two runs of the same setup differ by about as much.
const same = 0.05

// figure is one row of the comparison.
type figure struct {
	name      string
	then, now float64
	more      bool // more is better
	show      func(float64) string
}

// figures lists the figures of a sale, then and now.
func figures(then, now document) []figure {
	rate := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	latency := func(v float64) string { return Human(time.Duration(v * float64(time.Millisecond))) }
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
	count(judge.Oversold, then.Oversold, now.Oversold)
	count(judge.Undersold, then.Undersold, now.Undersold)
	count(judge.Lost, then.Lost, now.Lost)
	count(judge.Unannounced, then.Unannounced, now.Unannounced)
	count(judge.Duplicates, then.Duplicates, now.Duplicates)
	count(judge.OverLimit, then.OverLimit, now.OverLimit)
	return list
}

// ratio is now divided by then, and whether that is better.
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
		return judge.Word(judge.ExitPass)
	case len(d.Violations) > 0:
		return judge.Word(judge.ExitViolation)
	}
	return judge.Word(judge.ExitUnjudged)
}

// WriteAgainst writes the run's figures beside those of an earlier one, with a
// warning for each setting that differs.
func (all *Reports) WriteAgainst(w io.Writer, earlier *Earlier) error {
	t := Text{Right: true}
	t.Line("Against %s, run at %s:", earlier.path, earlier.Started.UTC().Format("2006-01-02 15:04:05 MST"))
	for _, name := range slices.Sorted(maps.Keys(all.Terms)) {
		if then, now := earlier.Setup[name], all.Terms[name]; then != now {
			t.Line("  WARNING: not the same %s: %s then, %s now", name, cmp.Or(then, "none"), cmp.Or(now, "none"))
		}
	}
	if len(all.Sales) != len(earlier.Sales) {
		t.Line("  %s then, %d now: nothing to compare", judge.Plural(len(earlier.Sales), "sale"), len(all.Sales))
		return t.Write(w)
	}
	for i, now := range all.documents() {
		then, heading := earlier.Sales[i], ""
		if len(all.Sales) > 1 {
			heading = all.Sales[i].Name
		}
		t.Row(heading, "then", "now", "ratio", " ")
		t.Row("verdict", then.word(), now.word(), "", "")
		for _, f := range figures(then, now) {
			ratio, which := f.ratio()
			t.Row(f.name, f.show(f.then), f.show(f.now), ratio, which)
		}
	}
	t.Line("same: within %.0f %%. Two runs of the same differ by more than that on a busy machine.", 100*same)
	return t.Write(w)
}
