package loadtest

import (
	"strings"
	"testing"
	"time"
)

// courseOf is the course of an attack of ten seconds on a sale of 100 units.
func courseOf(points ...stockPoint) (*Report, course) {
	first := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	rep := &Report{first: first}
	rep.Total = 100
	for i := range 100 {
		rep.timeline = append(rep.timeline, slice{at: time.Duration(i) * 100 * time.Millisecond})
	}
	for _, p := range points {
		rep.stock = append(rep.stock, stockPoint{first.Add(p.at.Sub(time.Time{})), p.available})
	}
	return rep, rep.course()
}

func at(d time.Duration, available int) stockPoint { return stockPoint{time.Time{}.Add(d), available} }

func TestCourse(t *testing.T) {
	_, c := courseOf(at(-time.Second, 100), at(2500*time.Millisecond, 50), at(5*time.Second, 0), at(time.Minute, 10))
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

func TestCourseBelowZero(t *testing.T) {
	_, c := courseOf(at(time.Second, 0), at(2*time.Second, -20))
	if !c.Below || c.Zero <= 0 || c.Zero >= courseHeight || !strings.Contains(c.Caption, "-20") {
		t.Errorf("below %v, zero at %v: %s", c.Below, c.Zero, c.Caption)
	}
}

func TestCourseNotSoldOut(t *testing.T) {
	if _, c := courseOf(at(time.Second, 40), at(2*time.Second, 60)); !strings.Contains(c.Caption, "40 of 100 left at the least") {
		t.Error(c.Caption)
	}
	if _, c := courseOf(); c.Line != "" {
		t.Errorf("a line of nothing: %s", c.Line)
	}
}
