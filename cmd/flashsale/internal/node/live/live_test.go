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

// The number of streams is bounded, in total and per address. Leave frees a place. Operators
// have their own bounds, which buyers at the same address do not use up.
func TestWatchersAreBounded(t *testing.T) {
	two, err := limit.New(2, time.Minute, 2)
	check.Must(t, err)
	l := New(Config{Watchers: 3, PerAddress: two, Operators: 3})
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
	}{{"a", false, "watches"}, {"a", false, "address"}, {"b", false, "watches"}, {"c", false, "full"},
		{"a", true, "watches"}, {"a", true, "watches"}, {"a", true, "address"}, {"d", true, "watches"}, {"e", true, "full"}} {
		if _, got := watch(c.address, c.operator); got != c.want {
			t.Errorf("watcher %+v: got %s, want %s", c, got, c.want)
		}
	}
	first.Leave()
	first.Leave() // has no effect
	if _, got := watch("a", false); got != "watches" {
		t.Errorf("watcher after Leave: got %s, want watches", got)
	}
	if _, got := watch("c", false); got != "full" {
		t.Errorf("watcher after a repeated Leave: got %s, want full", got)
	}
}

// A slow watcher misses snapshots but receives the latest one, and publish does not wait. A
// new watcher receives the latest snapshot at once.
func TestSlowWatcher(t *testing.T) {
	l := New(Config{})
	slow, err := l.Watch("S", "192.0.2.1", false)
	check.Must(t, err)
	for _, text := range []string{"1", "2", "3"} {
		l.publish("S", []byte(text))
	}
	if got := string(<-slow.Next()); got != "3" {
		t.Errorf("slow watcher: got message %q, want 3", got)
	}
	late, err := l.Watch("S", "192.0.2.1", false)
	check.Must(t, err)
	if got := string(<-late.Next()); got != "3" {
		t.Errorf("new watcher: got message %q, want 3", got)
	}

	l.end()
	if _, more := <-slow.Next(); more {
		t.Error("stream after end: it is still open, want it closed")
	}
	slow.Leave()
	if _, err := l.Watch("S", "192.0.2.1", false); !errors.Is(err, ErrEnded) {
		t.Errorf("Watch after end: got error %v, want ErrEnded", err)
	}
}

// The stream of a sale that no longer exists ends. The stream of a new sale without a
// snapshot continues.
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
		t.Error("stream of a missing sale: it continues, want it closed")
	}
	select {
	case _, more := <-created.Next():
		t.Errorf("stream of the new sale: got a message or its end (still open: %v), want neither", more)
	default:
	}
}

// Rates are counts per second, and the rates of all nodes are the sums. A new node may have
// none yet.
func TestRates(t *testing.T) {
	stats := func(seconds float64, took ...time.Duration) nodeStats {
		l := New(Config{})
		for _, took := range took {
			l.CountResponse("S", 201, took)
		}
		r := l.responses.take(seconds)
		if second := l.responses.take(1); second.Accepted != 0 || second.P99 != 0 {
			t.Errorf("second take of the rates: got %+v, want zero rates", second)
		}
		return nodeStats{Point: ratePoint{rates: r}, Took: r.took}
	}
	fast := slices.Repeat([]time.Duration{80 * time.Microsecond}, 98)
	a := stats(2, append(fast, 200*time.Microsecond, 200*time.Microsecond)...)
	b := stats(1, time.Microsecond, time.Microsecond)
	all := sumRates([]nodeStats{a, b, {Node: "c"}})
	if all.Accepted != 52 || a.Point.Accepted != 50 || b.Point.Accepted != 2 {
		t.Errorf("sum of the rates: got %+v, want accepted 52; nodes: got %v and %v, want 50 and 2", all, a.Point.Accepted, b.Point.Accepted)
	}
	if got := all.P99; math.Abs(got-.1735) > 1e-9 { // interpolated between 0.1 ms and 0.25 ms
		t.Errorf("p99 of all nodes: got %v ms, want 0.1735", got)
	}
	other := nodeStats{Point: ratePoint{rates: rates{Accepted: 1}}, Took: []uint64{9, 9}}
	if all := sumRates([]nodeStats{a, other}); all.Accepted != 51 || math.Abs(all.P99-.175) > 1e-9 {
		t.Errorf("sum with a node of another version: got %+v, want accepted 51, p99 0.175", all)
	}
}

// Orders are counted by outcome. Their times are also counted by sale, but only for the
// sales of the overview.
func TestAnswered(t *testing.T) {
	l := New(Config{})
	l.takeBySale([]string{"S", "T"})
	for status, took := range map[int]time.Duration{201: time.Millisecond, 202: time.Millisecond, 400: time.Millisecond, 409: time.Millisecond, 429: time.Millisecond, 503: time.Minute} {
		l.CountResponse("S", status, took)
		l.CountResponse("other", status, took)
	}
	if r := l.responses.take(2); r.Accepted != 2 || r.Refused != 1 || r.Limited != 1 || r.Failed != 1 || r.took[12] != 12 || r.took[11] != 10 {
		t.Errorf("rates of the answers: got %+v, want 2 accepted and 1 each refused, limited and failed", r)
	}
	if p99 := l.takeBySale([]string{"S"}); len(p99) != 1 || math.Abs(p99["S"]-2384.2) > .1 { // the last bound
		t.Errorf("p99 by sale: got %v, want 2384.2 ms of S", p99)
	}
	l.CountResponse("T", 201, time.Millisecond) // not counted by sale
	if p99 := l.takeBySale([]string{"S", "T"}); p99["S"] != 0 || p99["T"] != 0 {
		t.Errorf("p99 by sale a second later: got %v, want 0", p99)
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
		{[]uint64{0, 0, 0, 100}, 100}, // beyond the last bound
		{[]uint64{0, 100, 100, 100}, 9.91},
		{nil, 0},
	} {
		if got := quantile(.99, bounds, c.took); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("p99 of the counts %v: got %v, want %v", c.took, got, c.want)
		}
	}
}
