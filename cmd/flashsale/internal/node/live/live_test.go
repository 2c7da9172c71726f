package live

import (
	"errors"
	"flashsale/orders/shop"
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

// Rates are differences by each node's own clock; a node that is new, or was
// started again, has none yet, and one that is silent is left out.
func TestRates(t *testing.T) {
	var p peers
	at := func(node string, up time.Duration, accepted int64, took ...uint64) nodeStats {
		return nodeStats{Node: node, Uptime: up, Requests: Requests{Accepted: accepted, Bounds: []float64{.001, .01}, Took: took}}
	}
	p.rates([]nodeStats{at("a", 10*time.Second, 1000, 0, 0, 0), at("b", time.Hour, 5, 0, 0, 0)})
	f := p.rates([]nodeStats{at("a", 12*time.Second, 1100, 98, 100, 100), at("b", time.Second, 3, 3, 3, 3), at("c", time.Second, 7, 0, 7, 7)})
	if f.all.Accepted != 50 || f.byNode["a"].Accepted != 50 || f.byNode["b"].Accepted != 0 || f.byNode["c"].Accepted != 0 {
		t.Errorf("%+v", f)
	}
	if got := f.all.P99; math.Abs(got-5.5) > 1e-9 { // half of the way from 1 ms to 10 ms
		t.Errorf("p99 %v ms", got)
	}
	f = p.rates([]nodeStats{at("a", 12*time.Second, 1100, 98, 100, 100), at("c", 2*time.Second, 9, 0, 9, 9)})
	if f.byNode["a"].Accepted != 50 || f.all.Accepted != 52 {
		t.Errorf("no answer in between: %+v", f)
	}
}

// What was counted before nobody watched is not compared with what comes after.
func TestRatesAfterNobodyWatched(t *testing.T) {
	l := New(Config{Service: shop.New(shop.Config{})})
	at := func(up time.Duration, accepted int64) []nodeStats {
		return []nodeStats{{Node: "a", Uptime: up, Requests: Requests{Accepted: accepted}}}
	}
	l.peers.rates(at(10*time.Second, 1000))
	l.runOnce(t.Context())
	if f := l.peers.rates(at(time.Hour, 5000)); f.all.Accepted != 0 {
		t.Errorf("%+v", f)
	}
	if f := l.peers.rates(at(time.Hour+time.Second, 5007)); f.all.Accepted != 7 {
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

// noError ends the test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
