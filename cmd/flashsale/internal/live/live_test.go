package live

import (
	"errors"
	"math"
	"testing"
	"time"
)

// Only so many may watch, and who leaves makes room.
func TestMostWatchers(t *testing.T) {
	l := New(Config{Watchers: 2})
	first, err := l.Watch("S", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Watch("T", true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Watch("S", false); !errors.Is(err, ErrFull) {
		t.Errorf("a third one: %v", err)
	}
	first.Leave()
	first.Leave() // counts once
	if _, err := l.Watch("S", false); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	if _, err := l.Watch("S", false); !errors.Is(err, ErrFull) {
		t.Errorf("one that left twice made room for two: %v", err)
	}
}

// Who is slow misses snapshots and finds the latest; nobody waits for them. Who
// comes later has the latest at once.
func TestSlowWatcher(t *testing.T) {
	l := New(Config{})
	slow, err := l.Watch("S", false)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := l.Watch("S", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "2", "3"} {
		l.publish("S", []byte(text), []byte(text+" and figures"))
	}
	if got := string(<-slow.Next()); got != "3" {
		t.Errorf("the slow one has %q", got)
	}
	if got := string(<-operator.Next()); got != "3 and figures" {
		t.Errorf("the operator has %q", got)
	}
	late, err := l.Watch("S", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(<-late.Next()); got != "3" {
		t.Errorf("who comes later has %q", got)
	}

	l.end()
	if _, more := <-slow.Next(); more {
		t.Error("a stream goes on after the end")
	}
	slow.Leave()
	if _, err := l.Watch("S", false); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// The stream of a sale that is gone ends; one that the node has yet to hear of
// goes on.
func TestSaleIsGone(t *testing.T) {
	l := New(Config{})
	gone, err := l.Watch("gone", false)
	if err != nil {
		t.Fatal(err)
	}
	l.publish("gone", []byte("1"), nil)
	<-gone.Next()
	created, err := l.Watch("new", false)
	if err != nil {
		t.Fatal(err)
	}
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

// Rates are differences by each node's own clock; a node that is new, or was
// started again, has none yet, and one that is silent is left out.
func TestRates(t *testing.T) {
	var o others
	at := func(node string, up time.Duration, accepted int64, took ...uint64) counts {
		return counts{Node: node, Uptime: up, Requests: Requests{Accepted: accepted, Bounds: []float64{.001, .01}, Took: took}}
	}
	o.rates([]counts{at("a", 10*time.Second, 1000, 0, 0, 0), at("b", time.Hour, 5, 0, 0, 0)})
	f := o.rates([]counts{at("a", 12*time.Second, 1100, 98, 100, 100), at("b", time.Second, 3, 3, 3, 3), at("c", time.Second, 7, 0, 7, 7)})
	if f.all.Accepted != 50 || f.byNode["a"].Accepted != 50 || f.byNode["b"].Accepted != 0 || f.byNode["c"].Accepted != 0 {
		t.Errorf("%+v", f)
	}
	if got := f.all.P99; math.Abs(got-5.5) > 1e-9 { // half of the way from 1 ms to 10 ms
		t.Errorf("p99 %v ms", got)
	}
	f = o.rates([]counts{at("a", 12*time.Second, 1100, 98, 100, 100), at("c", 2*time.Second, 9, 0, 9, 9)})
	if f.byNode["a"].Accepted != 50 || f.all.Accepted != 52 {
		t.Errorf("no answer in between: %+v", f)
	}

	o.heard = map[string]heard{"a": {counts{Node: "a"}, time.Now()}, "b": {counts{Node: "b"}, time.Now().Add(-silence - time.Second)}}
	if nodes := o.seen(counts{Node: "here"}); len(nodes) != 2 || nodes[0].Node != "a" || nodes[1].Node != "here" {
		t.Errorf("%+v", nodes)
	}
}

// What was counted before nobody watched is not compared with what comes after.
func TestRatesAfterNobodyWatched(t *testing.T) {
	l := New(Config{})
	at := func(up time.Duration, accepted int64) []counts {
		return []counts{{Node: "a", Uptime: up, Requests: Requests{Accepted: accepted}}}
	}
	l.others.rates(at(10*time.Second, 1000))
	l.runOnce(t.Context())
	if f := l.others.rates(at(time.Hour, 5000)); f.all.Accepted != 0 {
		t.Errorf("%+v", f)
	}
	if f := l.others.rates(at(time.Hour+time.Second, 5007)); f.all.Accepted != 7 {
		t.Errorf("%+v", f)
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
