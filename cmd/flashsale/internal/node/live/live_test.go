package live

import (
	"errors"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/limit"
	"math"
	"slices"
	"testing"
	"time"
)

// Only so many may watch, from one address and in all, and who leaves makes room.
// Operators have places of their own.
func TestWatchersAreBounded(t *testing.T) {
	two, err := limit.New(2, time.Minute, 2)
	check.Must(t, err)
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
	check.Must(t, err)
	for _, text := range []string{"1", "2", "3"} {
		l.publish("S", []byte(text))
	}
	if got := string(<-slow.Next()); got != "3" {
		t.Errorf("the slow one has %q", got)
	}
	late, err := l.Watch("S", "192.0.2.1", false)
	check.Must(t, err)
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
func TestStreamOfMissingSaleEnds(t *testing.T) {
	l := New(Config{})
	gone, err := l.Watch("gone", "192.0.2.1", false)
	check.Must(t, err)
	l.publish("gone", []byte("1"))
	<-gone.Next()
	created, err := l.Watch("new", "192.0.2.1", false)
	check.Must(t, err)
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

// Rates are what was counted over the time that it took, and those of all nodes are
// their sums. A node that has not looked yet has none.
func TestRates(t *testing.T) {
	told := func(seconds float64, took ...time.Duration) nodeStats {
		l := New(Config{})
		for _, took := range took {
			l.Answered("S", 201, took)
		}
		r := l.responses.take(seconds)
		if second := l.responses.take(1); second.Accepted != 0 || second.P99 != 0 {
			t.Errorf("taken twice: %+v", second)
		}
		return nodeStats{Point: ratePoint{rates: r}, Took: r.took}
	}
	fast := slices.Repeat([]time.Duration{80 * time.Microsecond}, 98)
	a := told(2, append(fast, 200*time.Microsecond, 200*time.Microsecond)...)
	b := told(1, time.Microsecond, time.Microsecond)
	all := together([]nodeStats{a, b, {Node: "c"}})
	if all.Accepted != 52 || a.Point.Accepted != 50 || b.Point.Accepted != 2 {
		t.Errorf("%+v", all)
	}
	if got := all.P99; math.Abs(got-.1735) > 1e-9 { // half of the way from 0.1 ms to 0.25 ms, less the two of b
		t.Errorf("p99 %v ms", got)
	}
	other := nodeStats{Point: ratePoint{rates: rates{Accepted: 1}}, Took: []uint64{9, 9}}
	if all := together([]nodeStats{a, other}); all.Accepted != 51 || math.Abs(all.P99-.175) > 1e-9 {
		t.Errorf("with a node of another version: %+v", all)
	}
}

// What became of orders is counted by its kind, and their times by sale as well, of
// those sales that operators see. Nothing else is kept.
func TestAnswered(t *testing.T) {
	l := New(Config{})
	l.takeBySale([]string{"S", "T"})
	for status, took := range map[int]time.Duration{201: time.Millisecond, 202: time.Millisecond, 400: time.Millisecond, 409: time.Millisecond, 429: time.Millisecond, 503: time.Minute} {
		l.Answered("S", status, took)
		l.Answered("nobody's", status, took)
	}
	if r := l.responses.take(2); r.Accepted != 2 || r.Refused != 1 || r.Limited != 1 || r.Failed != 1 || r.took[12] != 12 || r.took[11] != 10 {
		t.Errorf("%+v", r)
	}
	if p99 := l.takeBySale([]string{"S"}); len(p99) != 1 || math.Abs(p99["S"]-2384.2) > .1 { // beyond the last bound it is that bound
		t.Errorf("of each sale: %v", p99)
	}
	l.Answered("T", 201, time.Millisecond) // shown no more
	if p99 := l.takeBySale([]string{"S", "T"}); p99["S"] != 0 || p99["T"] != 0 {
		t.Errorf("a second later: %v", p99)
	}
}

// BenchmarkAnswered is what counting an order costs.
func BenchmarkAnswered(b *testing.B) {
	l := New(Config{})
	l.takeBySale([]string{"S"})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Answered("S", 409, 27*time.Microsecond)
		}
	})
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
