package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// stockChartOf returns the chart of an attack of ten seconds on a sale of 100 units.
func stockChartOf(points ...StockPoint) (*Report, StockChart) {
	first := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	rep := &Report{first: first}
	rep.Total = 100
	rep.span = 10 * time.Second
	for _, p := range points {
		rep.Stock = append(rep.Stock, StockPoint{first.Add(p.At.Sub(time.Time{})), p.Available})
	}
	return rep, rep.StockChart()
}

func at(d time.Duration, available int) StockPoint { return StockPoint{time.Time{}.Add(d), available} }

func TestStockChartHasSteps(t *testing.T) {
	_, c := stockChartOf(at(-time.Second, 100), at(2500*time.Millisecond, 50), at(5*time.Second, 0), at(time.Minute, 10))
	// Half of the units are left after a quarter of the time, and none after half of it. A point
	// after the attack is drawn at the end.
	if want := "M0 0.0H240.0V80.0H480.0V160.0H960.0V144.0"; c.Line != want {
		t.Errorf("line: got %s, want %s", c.Line, want)
	}
	if c.Area != c.Line+"V160.0H0Z" || c.Below {
		t.Errorf("stock chart: got area %s, below %t, want the line down to 160, false", c.Area, c.Below)
	}
	if !strings.Contains(c.Caption, "Sold out for the first time after 5.00s") {
		t.Errorf("stock chart: got caption %q, want the time of the sell-out", c.Caption)
	}
}

func TestStockChartBelowZero(t *testing.T) {
	_, c := stockChartOf(at(time.Second, 0), at(2*time.Second, -20))
	if !c.Below || c.ZeroY <= 0 || c.ZeroY >= stockHeight || !strings.Contains(c.Caption, "-20") {
		t.Errorf("stock chart below zero: got below %t, zero at %v, caption %q, want true, inside the chart, -20", c.Below, c.ZeroY, c.Caption)
	}
}

func TestStockChartNotSoldOut(t *testing.T) {
	if _, c := stockChartOf(at(time.Second, 40), at(2*time.Second, 60)); !strings.Contains(c.Caption, "at least 40 of 100 units were left") {
		t.Errorf("stock chart: got caption %q, want at least 40 of 100 units", c.Caption)
	}
	if _, c := stockChartOf(); c.Line != "" {
		t.Errorf("chart without points: got line %s, want none", c.Line)
	}
}

func TestNiceTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0.001, 1e6).Draw(t, "v")
		top, step := niceTop(v)
		if n := top / step; top < v || n < 0.99 || n > 6.01 {
			t.Fatalf("niceTop(%v): got %v in steps of %v, want a top above the value in 1 to 6 steps", v, top, step)
		}
	})
	for v, want := range map[float64]string{1500: "1.5k", 20: "20", 0.25: "0.25"} {
		if got := Compact(v); got != want {
			t.Errorf("Compact(%v): got %q, want %q", v, got, want)
		}
	}
}

// The chart shows what clients were promised, and what they gave back. The order without an answer,
// for two units, is not in it.
func TestStockOfAnswers(t *testing.T) {
	var got []int
	for _, p := range dayReport(func(*judge.Evidence) {}).Stock {
		got = append(got, p.Available)
	}
	if want := []int{8, 7, 8, 6, 4, 2}; !slices.Equal(got, want) {
		t.Errorf("stock of ten units: got %v, want %v", got, want)
	}
}

// The page of a sale that oversold has a line at zero.
func TestPageOfOversoldSale(t *testing.T) {
	var page strings.Builder
	rep := dayReport(func(e *judge.Evidence) { e.Total = 5 })
	check.Must(t, rep.WriteHTML(&page))
	if !strings.Contains(page.String(), `<line class="mark"`) || !strings.Contains(page.String(), "The stock fell to -3") {
		t.Errorf("page of a sale that oversold: got no line at zero or no lowest stock, want both:\n%s", &page)
	}
	if after := rep.document().SoldOutS; after == nil || *after != 0.081 {
		t.Errorf("JSON of a sale that oversold: got it sold out after %v s, want 0.081", after)
	}
	if !strings.Contains(page.String(), "fewer units are left than the order needs") {
		t.Errorf("page of a sale that oversold: got no meaning of sold_out, want one:\n%s", &page)
	}
}
