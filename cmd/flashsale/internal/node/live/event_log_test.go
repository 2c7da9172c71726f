package live

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
)

// Rates are kept per second for two minutes, and in steps of five seconds for eight more. A
// step has the average of the rates and the maximum of P99 and Queued.
func TestEventLogKeepsTenMinutes(t *testing.T) {
	var log eventLog
	for s := range 900 {
		n := s % 5 // 2 on average
		log.add(ratePoint{rates: rates{Accepted: float64(n), Queued: int64(n), P99: float64(10 * n)}}, nil)
	}
	if coarse, fine := len(log.rates.coarse), len(log.rates.fine); coarse != maxCoarse || fine < maxFine || fine >= maxFine+step {
		t.Errorf("points of ten minutes: got %d coarse and %d fine points, want %d and %d to %d", coarse, fine, maxCoarse, maxFine, maxFine+step-1)
	}
	for _, p := range log.rates.coarse {
		if math.Abs(p.Accepted-2) > 1e-9 || p.Queued != 4 || p.P99 != 40 {
			t.Fatalf("coarse point: got %+v, want accepted 2, queued 4, p99 40", p)
		}
	}
	if p := log.last(); p.Accepted != 4 {
		t.Errorf("last point: got %+v, want accepted 4", p)
	}
	if size := len(log.opening(time.Now())); size > 40_000 {
		t.Errorf("opening of the event log: got %d bytes, want at most 40,000", size)
	}
}

// A change of a sale is logged when its state is stable. The first state, the first keeper
// and the first gate are not logged.
func TestLogOfSales(t *testing.T) {
	closes := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	sale := orders.Sale{SKU: "S", Total: 10, Mode: orders.ModeGate, ClosesAt: closes}
	o := &observed{}
	observe := func(change func(*orders.Sale)) []string {
		change(&sale)
		var logged []string
		for _, e := range o.saleEvents([]orders.Sale{sale}, []string{"S"}, closes.Add(-time.Hour)) {
			logged = append(logged, e.SKU+": "+e.What+". "+e.Text)
		}
		return logged
	}
	unchanged := func(*orders.Sale) {}
	for _, c := range []struct {
		name  string
		steps []func(*orders.Sale)
		want  []string
	}{
		{"first state", nil, nil},
		{"first keeper and gate", []func(*orders.Sale){func(s *orders.Sale) { s.Fence, s.Epoch = 1, 1 }}, nil},
		{"orders", []func(*orders.Sale){func(s *orders.Sale) { s.Sold = 3 }}, nil},
		{"a rebuild in two steps", []func(*orders.Sale){func(s *orders.Sale) { s.Epoch++ }, func(s *orders.Sale) { s.Epoch++ }}, []string{"S: Gate rebuilt. "}},
		{"a takeover", []func(*orders.Sale){func(s *orders.Sale) { s.Fence++ }}, []string{"S: Keeper changed. It is this node now."}},
		{"direct mode begins", []func(*orders.Sale){func(s *orders.Sale) { s.Mode = orders.ModeDirect; s.Fence++; s.Epoch++ }}, []string{"S: Direct mode begun. Orders go straight to MySQL."}},
		{"direct mode ends", []func(*orders.Sale){func(s *orders.Sale) { s.Mode = orders.ModeGate; s.Epoch++ }}, []string{"S: Direct mode ended. Its gate was rebuilt."}},
		{"a restock", []func(*orders.Sale){func(s *orders.Sale) { s.Total += 5000 }}, []string{"S: Restocked. 5,000 units more, 5,010 in all."}},
		{"a cut", []func(*orders.Sale){func(s *orders.Sale) { s.Total-- }}, []string{"S: Cut. 1 unit fewer, 5,009 in all."}},
		{"another closing time", []func(*orders.Sale){func(s *orders.Sale) { s.ClosesAt = closes.Add(-time.Minute) }}, []string{"S: Closing moved. To 27 Nov 2026 08:59:00 UTC."}},
		{"closed by an operator, of which there is a mark", []func(*orders.Sale){func(s *orders.Sale) { s.ClosesAt = closes.Add(-time.Hour) }}, nil},
		{"over", []func(*orders.Sale){func(s *orders.Sale) { s.Mode = orders.ModeOver }}, nil},
	} {
		var got []string
		for _, step := range append(c.steps, unchanged, unchanged) {
			got = append(got, observe(step)...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("events of sale state %s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A sale that opens, sells out or closes is logged with the time of the mark.
func TestLogOfMarks(t *testing.T) {
	found := markEvents(map[string][]mark{
		"T": {{7, "opened", 5000}, {8, "restocked", 2}, {9, "sold_out", 5}}, "S": {{6, "closed", 1}},
	})
	want := []logEntry{
		{At: 6, What: "Closed", SKU: "S", Text: "1 unit is left."},
		{At: 7, What: "Opened", SKU: "T", Text: "5,000 units are on sale."}, {At: 9, What: "Sold out", SKU: "T", Text: "No unit is left."},
	}
	if !slices.Equal(found, want) {
		t.Errorf("events of marks: got %+v, want %+v", found, want)
	}
	var log eventLog
	log.log(found)
	if e := log.entries[0]; e.ID != 1 || e.At != 6 {
		t.Errorf("first entry: got %+v, want id 1 at the time of the mark", e)
	}
}

// An outage of a store, its end, and a claim are logged once each.
func TestLogOfStoresAndRefunds(t *testing.T) {
	o := &observed{}
	for i, c := range []struct {
		missing []string
		want    string
	}{{nil, ""}, {[]string{"redis"}, "Redis away"}, {[]string{"redis"}, ""}, {[]string{"redis", "mysql"}, "MySQL away"}, {[]string{"mysql"}, "Redis back"}, {nil, "MySQL back"}} {
		if got := o.storeEvents(c.missing); len(got) != min(1, len(c.want)) || len(got) == 1 && got[0].What != c.want {
			t.Errorf("store events of call %d: got %+v, want %q", i, got, c.want)
		}
	}
	a, b := orders.Claim{OrderID: "a", PaymentRef: "1", SKU: "S"}, orders.Claim{OrderID: "a", PaymentRef: "2", SKU: "S"}
	for i, c := range []struct {
		claims []orders.Claim
		want   int
	}{{[]orders.Claim{a}, 0}, {[]orders.Claim{b, a}, 1}, {[]orders.Claim{b, a}, 0}} {
		if got := o.refundEvents(c.claims); len(got) != c.want {
			t.Errorf("refund events of call %d: got %+v, want %d entries", i, got, c.want)
		}
	}
}

// The log is bounded, and a thousand events in one second do not fill it.
func TestLogIsBounded(t *testing.T) {
	var log eventLog
	for n := range 300 {
		log.log([]logEntry{{What: fmt.Sprint(n)}})
	}
	log.log(make([]logEntry, 1000))
	if n := len(log.entries); n != maxEntries {
		t.Fatalf("entries of the event log: got %d, want %d", n, maxEntries)
	}
	if e := log.entries[maxEntries-1]; e.ID != 320 || e.Text != "981 entries of this second are left out." {
		t.Errorf("last entry of the event log: got %+v, want id 320 that reports 981 entries left out", e)
	}
	if e := log.entries[0]; e.What != "120" {
		t.Errorf("first entry of the event log: got %+v, want entry 120", e)
	}
	var v overview
	log.latest(&v)
	if len(v.Events) != repeated || v.Events[repeated-1].ID != 320 {
		t.Errorf("latest events: got %+v, want the last ones up to id 320", v.Events)
	}
}

// Pages have at most 110 kB and load no other files.
func TestPagesAreSmall(t *testing.T) {
	operators := func(demo bool) ([]byte, string, error) { return OperatorsPage(demo, "https://traces.test/{order}") }
	for name, make := range map[string]func(bool) ([]byte, string, error){"/": BuyersPage, "/ops": operators} {
		html, policy, err := make(true)
		check.Must(t, err)
		if len(html) > 110_000 || bytes.Contains(html, []byte(" src=")) || bytes.Contains([]byte(policy), []byte("unsafe")) {
			t.Errorf("page %s: got %d bytes with policy %s, want at most 110 kB, no src and a strict policy", name, len(html), policy)
		}
	}
}

// The files of the chart library have the checksums of README.md.
func TestLibraryIsUnmodified(t *testing.T) {
	readme, err := files.ReadFile("page/uplot/README.md")
	check.Must(t, err)
	for _, name := range []string{"uPlot.iife.min.js", "uPlot.min.css"} {
		text, err := files.ReadFile("page/uplot/" + name)
		check.Must(t, err)
		sum := sha256.Sum256(text)
		if line := "| " + name + " | " + hex.EncodeToString(sum[:]) + " |\n"; !bytes.Contains(readme, []byte(line)) {
			t.Errorf("README.md of the library: got no line %s", line)
		}
	}
}

// The lists of an empty overview are [] in JSON, not null.
func TestEmptyOverview(t *testing.T) {
	l := New(Config{})
	raw, err := json.Marshal(l.overview(nil, nil))
	check.Must(t, err)
	for _, list := range []string{`"sales":[]`, `"nodes":[]`, `"missing":[]`, `"events":[]`} {
		if !bytes.Contains(raw, []byte(list)) {
			t.Errorf("empty overview: got %s, want %s", raw, list)
		}
	}
	if got := string(l.events.opening(l.started)); !bytes.Contains([]byte(got), []byte(`"points":[]`)) || !bytes.Contains([]byte(got), []byte("event: events\ndata: {\"events\":[]}\n\n")) {
		t.Errorf("start of the event stream: got %s, want empty points and events", got)
	}
}
