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

// Rates are kept by the second for two minutes and in steps of five for eight
// more. A step has the average, and of p99 and queue the worst.
func TestEventLogKeepsTenMinutes(t *testing.T) {
	var j eventLog
	for s := range 900 {
		n := s % 5 // 2 on average
		j.add(ratePoint{rates: rates{Accepted: float64(n), Queued: int64(n), P99: float64(10 * n)}}, nil)
	}
	if coarse, fine := len(j.rates.coarse), len(j.rates.fine); coarse != maxCoarse || fine < maxFine || fine >= maxFine+step {
		t.Errorf("%d and %d points", coarse, fine)
	}
	for _, p := range j.rates.coarse {
		if math.Abs(p.Accepted-2) > 1e-9 || p.Queued != 4 || p.P99 != 40 {
			t.Fatalf("%+v", p)
		}
	}
	if p := j.last(); p.Accepted != 4 {
		t.Errorf("the last: %+v", p)
	}
	if size := len(j.opening(time.Now())); size > 40_000 {
		t.Errorf("it takes %d bytes", size)
	}
}

// What happens to a sale is logged once it stands still. Its first keeper and gate,
// and what was before the node knew it, are not.
func TestLogOfSales(t *testing.T) {
	closes := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	sale := orders.Sale{SKU: "S", Total: 10, Mode: orders.ModeGate, ClosesAt: closes}
	o := &lastLook{}
	look := func(change func(*orders.Sale)) []string {
		change(&sale)
		var said []string
		for _, e := range o.lookAtSales([]orders.Sale{sale}, []string{"S"}) {
			said = append(said, e.SKU+": "+e.What+". "+e.Says)
		}
		return said
	}
	still := func(*orders.Sale) {}
	for _, c := range []struct {
		name  string
		steps []func(*orders.Sale)
		want  []string
	}{
		{"it is known", nil, nil},
		{"its first keeper and gate", []func(*orders.Sale){func(s *orders.Sale) { s.Fence, s.Epoch = 1, 1 }}, nil},
		{"some are sold", []func(*orders.Sale){func(s *orders.Sale) { s.Sold = 3 }}, nil},
		{"a rebuild: asked, done", []func(*orders.Sale){func(s *orders.Sale) { s.Epoch++ }, func(s *orders.Sale) { s.Epoch++ }}, []string{"S: Gate rebuilt. "}},
		{"a takeover", []func(*orders.Sale){func(s *orders.Sale) { s.Fence++ }}, []string{"S: Keeper changed. It is this node now."}},
		{"Redis is gone", []func(*orders.Sale){func(s *orders.Sale) { s.Mode = orders.ModeDirect; s.Fence++; s.Epoch++ }}, []string{"S: Direct mode begun. Orders go straight to MySQL."}},
		{"Redis is back", []func(*orders.Sale){func(s *orders.Sale) { s.Mode = orders.ModeGate; s.Epoch++ }}, []string{"S: Direct mode ended. Its gate was rebuilt."}},
		{"a restock", []func(*orders.Sale){func(s *orders.Sale) { s.Total += 5 }}, []string{"S: Restocked. 5 units more, 15 in all."}},
		{"a cut", []func(*orders.Sale){func(s *orders.Sale) { s.Total -= 2 }}, []string{"S: Cut. 2 units fewer, 13 in all."}},
		{"closed by hand", []func(*orders.Sale){func(s *orders.Sale) { s.ClosesAt = closes.Add(-time.Hour) }}, []string{"S: Closing moved. To 27 Nov 08:00:00 UTC."}},
		{"it is over", []func(*orders.Sale){func(s *orders.Sale) { s.Mode = orders.ModeOver }}, nil},
	} {
		var got []string
		for _, step := range append(c.steps, still, still) {
			got = append(got, look(step)...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Stores that go and come back, and claims, are logged once.
func TestLogOfStoresAndRefunds(t *testing.T) {
	o := &lastLook{}
	for i, c := range []struct {
		missing []string
		want    string
	}{{nil, ""}, {[]string{"redis"}, "Redis away"}, {[]string{"redis"}, ""}, {[]string{"redis", "mysql"}, "MySQL away"}, {[]string{"mysql"}, "Redis back"}, {nil, "MySQL back"}} {
		if got := o.lookAtStores(c.missing); len(got) != min(1, len(c.want)) || len(got) == 1 && got[0].What != c.want {
			t.Errorf("look %d: %+v, want %q", i, got, c.want)
		}
	}
	a, b := orders.Claim{OrderID: "a", PaymentRef: "1", SKU: "S"}, orders.Claim{OrderID: "a", PaymentRef: "2", SKU: "S"}
	for i, c := range []struct {
		claims []orders.Claim
		want   int
	}{{[]orders.Claim{a}, 0}, {[]orders.Claim{b, a}, 1}, {[]orders.Claim{b, a}, 0}} {
		if got := o.lookAtRefunds(c.claims); len(got) != c.want {
			t.Errorf("look %d: %+v", i, got)
		}
	}
}

// The log is bounded, and what happens to a thousand sales at once does not fill it.
func TestLogIsBounded(t *testing.T) {
	var j eventLog
	for n := range 300 {
		j.log([]logEntry{{What: fmt.Sprint(n)}})
	}
	j.log(make([]logEntry, 1000))
	if n := len(j.entries); n != maxEntries {
		t.Fatalf("%d entries", n)
	}
	if e := j.entries[maxEntries-1]; e.ID != 320 || e.Says != "981 entries of this second are left out." {
		t.Errorf("%+v", e)
	}
	if e := j.entries[0]; e.What != "120" {
		t.Errorf("%+v", e)
	}
	var v overview
	j.latest(&v)
	if len(v.Events) != lately || v.Events[lately-1].ID != 320 {
		t.Errorf("%+v", v.Events)
	}
}

// Pages are small, and load nothing.
func TestPagesAreSmall(t *testing.T) {
	for name, make := range map[string]func(bool) ([]byte, string, error){"/": Page, "/ops": Operators} {
		html, policy, err := make(true)
		check.Must(t, err)
		if len(html) > 100_000 || bytes.Contains(html, []byte(" src=")) || bytes.Contains([]byte(policy), []byte("unsafe")) {
			t.Errorf("%s: %d bytes under %s", name, len(html), policy)
		}
	}
}

// The chart library is the one that its page names.
func TestLibraryIsUnmodified(t *testing.T) {
	readme, err := files.ReadFile("page/uplot/README.md")
	check.Must(t, err)
	for _, name := range []string{"uPlot.iife.min.js", "uPlot.min.css"} {
		text, err := files.ReadFile("page/uplot/" + name)
		check.Must(t, err)
		sum := sha256.Sum256(text)
		if line := "| " + name + " | " + hex.EncodeToString(sum[:]) + " |\n"; !bytes.Contains(readme, []byte(line)) {
			t.Errorf("not as the page says: %s", line)
		}
	}
}

// An overview before anything has happened has lists, and no nulls in their place.
func TestEmptyOverview(t *testing.T) {
	l := New(Config{})
	raw, err := json.Marshal(l.overview(nil, nil))
	check.Must(t, err)
	for _, list := range []string{`"sales":[]`, `"nodes":[]`, `"missing":[]`, `"events":[]`} {
		if !bytes.Contains(raw, []byte(list)) {
			t.Errorf("%s lacks %s", raw, list)
		}
	}
	if got := string(l.events.opening(l.started)); !bytes.Contains([]byte(got), []byte(`"points":[]`)) || !bytes.Contains([]byte(got), []byte("event: events\ndata: {\"events\":[]}\n\n")) {
		t.Errorf("it begins with %s", got)
	}
}
