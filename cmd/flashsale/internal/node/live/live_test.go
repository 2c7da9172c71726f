package live

import (
	"errors"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/limit"
	"math"
	"testing"
	"time"
)

// Only so many may watch, from one address and in all, and who leaves makes room.
// Operators have places of their own.
func TestMostWatchers(t *testing.T) {
	two, err := limit.New(2, time.Minute, 2)
	noError(t, err)
	l := New(Config{Watchers: 3, PerAddress: two, Operators: 1})
	watch := func(address string, operator bool) (*Watcher, string) {
		w, err := l.Watch("S", address, operator)
		var limited *admission.LimitedError
		switch {
		case errors.As(err, &limited) && limited.Result.Limit.Burst() == 2 && limited.Result.RetryAfter > 0:
			return nil, "address"
		case errors.Is(err, ErrFull):
			return nil, "full"
		case err != nil:
			return nil, err.Error()
		}
		return w, "watches"
	}
	first, _ := watch("a", false)
	for _, c := range []struct {
		address  string
		operator bool
		want     string
	}{{"a", false, "watches"}, {"a", false, "address"}, {"b", false, "watches"}, {"c", false, "full"}, {"a", true, "watches"}, {"d", true, "full"}} {
		if _, got := watch(c.address, c.operator); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	first.Leave()
	first.Leave() // counts once
	if _, got := watch("a", false); got != "watches" {
		t.Errorf("after one has left: %s", got)
	}
	if _, got := watch("c", false); got != "full" {
		t.Errorf("one that left twice made room for two: %s", got)
	}
}

// Who is slow misses snapshots and finds the latest; nobody waits for them. Who
// comes later has the latest at once.
func TestSlowWatcher(t *testing.T) {
	l := New(Config{})
	slow, err := l.Watch("S", "192.0.2.1", false)
	noError(t, err)
	for _, text := range []string{"1", "2", "3"} {
		l.publish("S", []byte(text))
	}
	if got := string(<-slow.Next()); got != "3" {
		t.Errorf("the slow one has %q", got)
	}
	late, err := l.Watch("S", "192.0.2.1", false)
	noError(t, err)
	if got := string(<-late.Next()); got != "3" {
		t.Errorf("who comes later has %q", got)
	}

	l.end()
	if _, more := <-slow.Next(); more {
		t.Error("a stream goes on after the end")
	}
	slow.Leave()
	if _, err := l.Watch("S", "192.0.2.1", false); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// The stream of a sale that is gone ends; one that the node has yet to hear of
// goes on.
func TestSaleIsGone(t *testing.T) {
	l := New(Config{})
	gone, err := l.Watch("gone", "192.0.2.1", false)
	noError(t, err)
	l.publish("gone", []byte("1"))
	<-gone.Next()
	created, err := l.Watch("new", "192.0.2.1", false)
	noError(t, err)
	l.dropAllBut(nil)
	if _, more := <-gone.Next(); more {
		t.Error("it goes on")
	}
	select {
	case _, more := <-created.Next():
		t.Errorf("the new one's: more %v", more)
	default:
	}
}

// Rates are differences by each node's own clock, and those of all nodes are their
// sums. A node that has not looked yet has none.
func TestRates(t *testing.T) {
	at := func(up time.Duration, accepted int64, took ...uint64) counts {
		return counts{Uptime: up, Requests: Requests{Accepted: accepted, Bounds: []float64{.001, .01}, Took: took}}
	}
	told := func(was, now counts) nodeStats {
		var j journal
		j.add(was)
		j.add(now)
		p := j.last()
		return nodeStats{Point: p, Bounds: p.bounds, Took: p.took}
	}
	a := told(at(10*time.Second, 1000, 0, 0, 0), at(12*time.Second, 1100, 98, 100, 100))
	b := told(at(time.Hour, 5, 7, 7, 7), at(time.Hour+time.Second, 7, 7, 7, 7))
	all := together([]nodeStats{a, b, {Node: "c"}})
	if all.Accepted != 52 || a.Point.Accepted != 50 || b.Point.Accepted != 2 {
		t.Errorf("%+v", all)
	}
	if got := all.P99; math.Abs(got-5.5) > 1e-9 { // half of the way from 1 ms to 10 ms
		t.Errorf("p99 %v ms", got)
	}
	other := nodeStats{Point: &ratePoint{rates: rates{Accepted: 1}}, Took: []uint64{9, 9}}
	if all := together([]nodeStats{a, other}); all.Accepted != 51 || math.Abs(all.P99-5.5) > 1e-9 {
		t.Errorf("with a node of another version: %+v", all)
	}
}

func TestQuantile(t *testing.T) {
	bounds := []float64{.001, .01, .1}
	for _, c := range []struct {
		took []uint64
		want float64
	}{
		{[]uint64{0, 0, 0, 0}, 0},
		{[]uint64{100, 100, 100, 100}, .99},
		{[]uint64{0, 0, 0, 100}, 100}, // longer than the last bound
		{[]uint64{0, 100, 100, 100}, 9.91},
		{nil, 0},
	} {
		if got := quantile(.99, bounds, c.took); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.took, got, c.want)
		}
	}
}

// noError ends the test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
