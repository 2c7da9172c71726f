package loadtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// dayReport is the report of one small, fixed sale.
func dayReport(bend func(*Evidence)) *Report {
	e := day().end()
	bend(&e)
	c := Defaults()
	c.Strategy, c.Stores = "lua", "embedded"
	rep := NewReport(c, e)
	rep.restores = []time.Duration{3 * time.Millisecond, 5 * time.Millisecond, 4 * time.Millisecond}
	rep.Restore = quantiles(rep.restores)
	return rep
}

func TestGolden(t *testing.T) {
	for name, bend := range map[string]func(*Evidence){
		"pass": func(*Evidence) {},
		"fail": func(e *Evidence) { e.Rows = e.Rows[1:]; e.Audit.Available = 2 },
		"open": func(e *Evidence) { e.SoldOut, e.Requests = false, append(e.Requests[:1:1], e.Requests[2:]...) },
	} {
		t.Run(name, func(t *testing.T) {
			rep := dayReport(bend)
			for kind, write := range map[string]func(io.Writer) error{"txt": rep.WriteText, "json": rep.WriteJSON} {
				var got bytes.Buffer
				if err := write(&got); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join("testdata", name+"."+kind)
				if *update {
					if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%s:\n%s\nwant\n%s", path, &got, want)
				}
			}
		})
	}
}

// The machines that read it rely on these names, in this order, and no others.
func TestJSONHasTheAgreedFields(t *testing.T) {
	const want = "pass sku total strategy stores attempts answers durable pending paid cancelled expired rejected " +
		"available held restoring oversold undersold lost unannounced duplicates over_limit drift " +
		"accepted_per_s durable_per_s latency_ms restore_ms violations"
	var b bytes.Buffer
	if err := dayReport(func(*Evidence) {}).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	dec := json.NewDecoder(&b)
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name.(string))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestHTMLStandsAlone(t *testing.T) {
	_, url := newFake(t, fault{lose: true})
	rep := mustRun(t, quick(url))
	rep.Notes = append(rep.Notes, `<script>alert("note")</script>`)
	dir := t.TempDir()
	if err := rep.Save(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.html", "report.json", "report.txt"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>FAIL</h1>", "<b>lost</b>", "srcdoc=", "uPlot", `class="f-accepted"`} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("no %s in the page", want)
		}
	}
	if bytes.Contains(got, []byte(`<script>alert("note")`)) {
		t.Error("a note is not escaped")
	}
	if outside := regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:)?//|url\(\s*["']?(https?:)?//|@import`).Find(got); outside != nil {
		t.Errorf("the page loads %s", outside)
	}
}

func TestQuantilesAreByNearestRank(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	if got, want := quantiles(all), (Quantiles{100, 50, 90, 99, 100}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := quantiles(all[:1]), (Quantiles{1, 100, 100, 100, 100}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := quantiles(nil); got != (Quantiles{}) {
		t.Errorf("got %v, want zero", got)
	}
}

// Rates end with the last order that became durable: replays and refusals
// afterwards do not thin them out.
func TestRates(t *testing.T) {
	h := newHistory(2, 2)
	for _, b := range []string{"ann", "bob"} {
		h.ask(First, b, "k", 1, true) // sent at 10 and 20 ms, 1 ms each
	}
	h.now = h.now.Add(time.Hour)
	h.ask(Replay, "ann", "k", 1, true)
	rep := NewReport(Defaults(), h.end())
	if got, want := round(rep.DurablePerS, 3), round(2/0.011, 3); got != want {
		t.Errorf("durable %v/s, want %v", got, want)
	}
	if rep.AcceptedPerS != rep.DurablePerS {
		t.Errorf("accepted %v/s, want the same", rep.AcceptedPerS)
	}
}
