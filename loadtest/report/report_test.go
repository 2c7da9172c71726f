package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// dayReport returns the report of the evidence in testdata/day.json after bend has changed it.
func dayReport(bend func(*judge.Evidence)) *Report {
	var e judge.Evidence
	text, err := os.ReadFile("testdata/day.json")
	if err = errors.Join(err, json.Unmarshal(text, &e)); err != nil {
		panic(err)
	}
	e.Feed = &judge.Feed{}
	for i := range e.Rows {
		row := e.Rows[i]
		e.Feed.Changes = append(e.Feed.Changes, judge.Change{No: int64(i), Order: &row})
	}
	bend(&e)
	c := Config{
		Strategy: "lua", Stores: "embedded", Versions: "miniredis v2, SQLite 3", Schedule: "constant, 2,000/s for 10s",
		Command: "flashsale demo --report out", Program: "flashsale, revision abc", Seed: 1234, Cores: 2, Target: "http://127.0.0.1:8080",
	}
	if len(e.Lacks) > 0 {
		c.Shop = &judge.About{Name: "Toy", Version: "1.2", Settings: "SQLite", Lacks: e.Lacks, Emulates: []judge.Feature{judge.Paying}}
	}
	return New(c, e, Observations{
		ReleaseTimes: []time.Duration{3 * time.Millisecond, 5 * time.Millisecond, 4 * time.Millisecond},
		SendDelays:   []time.Duration{100 * time.Microsecond, 0, 200 * time.Microsecond},
	})
}

func TestGolden(t *testing.T) {
	for name, bend := range map[string]func(*judge.Evidence){
		"pass": func(*judge.Evidence) {},
		"fail": func(e *judge.Evidence) { e.Rows = e.Rows[1:]; e.Audit.Available = 2 },
		"open": func(e *judge.Evidence) {
			e.SoldOut, e.Feed, e.Requests = false, nil, append(e.Requests[:1:1], e.Requests[2:]...)
		},
		"late": func(*judge.Evidence) {},
		"shop": func(e *judge.Evidence) {
			e.Lacks, e.Feed = []judge.Feature{judge.Keys, judge.Limit, judge.Auditing, judge.Cancelling, judge.ChangeFeed}, nil
		},
		"many": func(e *judge.Evidence) {
			e.Total, e.Audit.Total, e.Audit.Available, e.Audit.Drift = 12345, 12345, 12335, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			rep := dayReport(bend)
			if name == "late" { // the load test was too busy, and the search for a history timed out
				rep.Undecided, rep.SendDelay = true, Quantiles{N: 9, P50: 2 * time.Millisecond, P99: 12 * time.Millisecond, Max: 15 * time.Millisecond}
			}
			var page bytes.Buffer
			check.Must(t, rep.WriteHTML(&page))
			if doubted := bytes.Contains(page.Bytes(), []byte("<b>do not trust the latencies</b>")); doubted != (name == "late") {
				t.Errorf("page of the report: got a warning about the latencies: %t, want %t", doubted, name == "late")
			}
			if trust := map[bool]string{true: "<b>not trusted</b>, because", false: "<b>trusted</b>."}[name == "late"]; !bytes.Contains(page.Bytes(), []byte(trust)) {
				t.Errorf("page of the report: got no %q, want it", trust)
			}
			if want := map[string]string{
				"pass": "<b>13 kept</b>: oversold, ", "fail": `<a href="history.html">`, "open": "Follow the advice on each line", "shop": "<b>7 not applicable to this shop</b>: duplicates, ",
				"late": "use a separate machine", "many": "Usual cause: the units of a cancelled",
			}[name]; !bytes.Contains(page.Bytes(), []byte(want)) {
				t.Errorf("page of the report: got no %q, want it", want)
			}
			for kind, write := range map[string]func(io.Writer) error{"txt": rep.WriteText, "json": rep.WriteJSON} {
				var got bytes.Buffer
				check.Must(t, write(&got))
				path := filepath.Join("testdata", name+"."+kind)
				if *update {
					check.Must(t, os.WriteFile(path, got.Bytes(), 0o644))
				}
				want, err := os.ReadFile(path)
				check.Must(t, err)
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("golden file %s: got\n%s\nwant\n%s", path, &got, want)
				}
			}
		})
	}
}

// The README of the load test explains each field of the JSON report.
func TestReadmeExplainsJSON(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	check.Must(t, err)
	var fields map[string]any
	text, err := json.Marshal(document{})
	check.Must(t, errors.Join(err, json.Unmarshal(text, &fields)))
	for name := range fields {
		if !bytes.Contains(readme, []byte("`"+name+"`")) {
			t.Errorf("README of the load test: got no field `%s`, want it", name)
		}
	}
}

// Rates end with the last acceptance of a new order. Later replays do not lower them.
func TestReplaysDoNotLowerRates(t *testing.T) {
	e := judge.Evidence{SKU: "S", Total: 2, UnitsPerBuyer: 2}
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ask := func(kind judge.Kind, buyer string, after time.Duration) judge.Order {
		o := judge.Order{ID: "id-" + buyer, SKU: "S", Buyer: buyer, Quantity: 1, Status: judge.Pending}
		e.Requests = append(e.Requests, judge.Request{
			Kind: kind, Attack: true, Buyer: buyer, Key: "k", Quantity: 1, Sent: begin.Add(after), Latency: time.Millisecond,
			Answer: judge.Answer{Status: 201, Order: &o, Replayed: kind == judge.Replay},
		})
		return o
	}
	e.Rows = []judge.Row{
		{Order: ask(judge.First, "ann", 0), Key: "k"},
		{Order: ask(judge.First, "bob", 10*time.Millisecond), Key: "k"},
	}
	ask(judge.Replay, "ann", time.Hour)
	rep := New(Config{}, e, Observations{})
	if got, want := Round(rep.DurablePerS, 3), Round(2/0.011, 3); got != want {
		t.Errorf("durable: got %v/s, want %v", got, want)
	}
	if rep.AcceptedPerS != rep.DurablePerS {
		t.Errorf("accepted: got %v/s, want %v", rep.AcceptedPerS, rep.DurablePerS)
	}
}

// The orders of probes and fresh buyers explain why more orders are durable than the attack placed.
func TestLaterOrdersAreExplained(t *testing.T) {
	e := judge.Evidence{SKU: "S", Total: 2, UnitsPerBuyer: 2}
	for buyer, attack := range map[string]bool{"ann": true, "eve": false} {
		o := judge.Order{ID: "id-" + buyer, SKU: "S", Buyer: buyer, Quantity: 1, Status: judge.Pending}
		e.Requests = append(e.Requests, judge.Request{Attack: attack, Buyer: buyer, Key: "k", Quantity: 1, Sent: time.Unix(1, 0), Latency: time.Millisecond, Answer: judge.Answer{Status: 201, Order: &o}})
		e.Rows = append(e.Rows, judge.Row{Order: o, Key: "k"})
	}
	var text, page bytes.Buffer
	rep := New(Config{}, e, Observations{})
	check.Must(t, errors.Join(rep.WriteText(&text), rep.WriteHTML(&page)))
	for out, want := range map[*bytes.Buffer]string{
		&text: "2 durable (1 of them by release probes and fresh buyers), 2 pending_payment",
		&page: "release probes and fresh buyers placed 1 more of the 2 durable orders",
	} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("report with an order after the attack: got\n%s\nwant %q", out, want)
		}
	}
}

// If the history is not linearizable, Save writes a page with the history.
func TestSaveWritesHistory(t *testing.T) {
	dir := t.TempDir()
	check.Must(t, dayReport(func(e *judge.Evidence) { e.Audit.Available = 2 }).Save(dir))
	page, err := os.ReadFile(filepath.Join(dir, "history.html"))
	if err != nil || !bytes.Contains(page, []byte("on sale")) {
		t.Errorf("history.html: got %d bytes, error %v, want a page that contains \"on sale\"", len(page), err)
	}
}
