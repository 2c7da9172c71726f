package report

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stockChartOf is the StockChart of an attack of ten seconds on a sale of 100 units.
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

func TestStockChart(t *testing.T) {
	_, c := stockChartOf(at(-time.Second, 100), at(2500*time.Millisecond, 50), at(5*time.Second, 0), at(time.Minute, 10))
	// A quarter of the way half is left, at the middle nothing; what was read
	// after the attack is drawn at its end.
	if want := "M0 0.0H240.0V80.0H480.0V160.0H960.0V144.0"; c.Line != want {
		t.Errorf("%s, want %s", c.Line, want)
	}
	if c.Area != c.Line+"V160.0H0Z" || c.Below {
		t.Errorf("area %s, below %v", c.Area, c.Below)
	}
	if !strings.Contains(c.Caption, "Sold out for the first time after 5.00s") {
		t.Error(c.Caption)
	}
}

func TestStockChartBelowZero(t *testing.T) {
	_, c := stockChartOf(at(time.Second, 0), at(2*time.Second, -20))
	if !c.Below || c.Zero <= 0 || c.Zero >= stockHeight || !strings.Contains(c.Caption, "-20") {
		t.Errorf("below %v, zero at %v: %s", c.Below, c.Zero, c.Caption)
	}
}

func TestStockChartNotSoldOut(t *testing.T) {
	if _, c := stockChartOf(at(time.Second, 40), at(2*time.Second, 60)); !strings.Contains(c.Caption, "40 of 100 left at the least") {
		t.Error(c.Caption)
	}
	if _, c := stockChartOf(); c.Line != "" {
		t.Errorf("a line of nothing: %s", c.Line)
	}
}

func TestNiceTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0.001, 1e6).Draw(t, "v")
		top, step := niceTop(v)
		if n := top / step; top < v || n < 0.99 || n > 6.01 {
			t.Fatalf("niceTop(%v) = %v by %v", v, top, step)
		}
	})
	for v, want := range map[float64]string{1500: "1.5k", 20: "20", 0.25: "0.25"} {
		if got := Compact(v); got != want {
			t.Errorf("Compact(%v) = %q, want %q", v, got, want)
		}
	}
}
