package loadtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"pgregory.net/rapid"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

func TestBurstWaitsForNextSecond(t *testing.T) {
	b := pace(t.Context(), Config{Phases: []Phase{{Shape: Burst, Rate: 3, Duration: 4 * time.Second}}})
	for _, tc := range []struct {
		elapsed time.Duration
		hits    uint64
		want    time.Duration
	}{
		{0, 0, 0}, {0, 2, 0}, {10 * time.Millisecond, 3, 990 * time.Millisecond}, {time.Second, 5, 0}, {5 * time.Second, 6, 0},
	} {
		if got, _ := b.Pace(tc.elapsed, tc.hits); got != tc.want {
			t.Errorf("Pace after %v and %d requests: got %v, want %v", tc.elapsed, tc.hits, got, tc.want)
		}
	}
}

func testPlan(t testing.TB, seed int64) *targets {
	c := Defaults()
	c.Target, c.SKU, c.Seed = "http://sale.test/", "S", seed
	return newTargets(c, 0, newArrivals(c, testCrowd(t, 50)))
}

func testCrowd(t check.T, n int) []client.Buyer {
	c := newCrowd(fakeToken)
	check.Must(t, c.sign(n))
	return c.buyers
}

func TestPlanFollowsItsSeed(t *testing.T) {
	plan := func(seed int64) []attempt {
		p := testPlan(t, seed)
		var target vegeta.Target
		for n := range 200 {
			check.Must(t, p.target(&target))
			if n%3 == 0 {
				p.accept(n)
			}
		}
		return p.attempts
	}
	one := plan(1)
	if !reflect.DeepEqual(one, plan(1)) {
		t.Error("plans of one seed: got different plans, want the same")
	}
	if reflect.DeepEqual(one, plan(2)) {
		t.Error("plans of two seeds: got the same plan, want different ones")
	}
}

// Only a replay repeats a key, and it repeats the order as well. Only a second order
// comes from a buyer who has ordered before.
func TestPlannedAttemptsAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Defaults()
		c.UnitsPerBuyer = rapid.IntRange(1, 5).Draw(t, "limit")
		c.MaxQuantity = rapid.IntRange(1, c.UnitsPerBuyer).Draw(t, "max")
		if rapid.Bool().Draw(t, "heavy buyers") {
			c.Zipf = 1.5
		}
		p := newTargets(c, 0, newArrivals(c, testCrowd(t, rapid.IntRange(1, 30).Draw(t, "buyers"))))
		m := newSaleMix(c, []*targets{p})
		keys, ordered := map[string]attempt{}, map[string]bool{}
		for n := range 100 {
			var target vegeta.Target
			check.Must(t, m.target(&target))
			a, _, got, err := m.numbered(target.URL)
			if err != nil || got != n {
				t.Fatalf("attempt %d: got number %d and error %v", n, got, err)
			}
			first, known := keys[a.key]
			if known != (a.kind == judge.Replay) || known && (first.buyer != a.buyer || first.quantity != a.quantity) {
				t.Fatalf("attempt: got %+v after %+v, want a new key or a replay of the same order", a, first)
			}
			if a.kind != judge.Replay && ordered[a.buyer.Subject] != (a.kind == judge.Second) {
				t.Fatalf("attempt: got a %s order by a buyer who has ordered before: %v", a.kind, ordered[a.buyer.Subject])
			}
			if a.quantity < 1 || a.quantity > c.MaxQuantity {
				t.Fatalf("quantity: got %d, want 1 to %d", a.quantity, c.MaxQuantity)
			}
			keys[a.key], ordered[a.buyer.Subject] = a, true
			if rapid.Bool().Draw(t, "accepted") {
				p.accept(n)
			}
		}
	})
}

// vegeta returns the number of an attempt with its result, but the request does not
// contain it.
func TestAttemptNumberIsNotSent(t *testing.T) {
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r }))
	defer server.Close()
	p := testPlan(t, 1)
	p.client = client.New(server.URL, "S", nil)
	m := newSaleMix(p.c, []*targets{p})
	conn := client.NewHTTP(1, time.Second)
	defer conn.CloseIdleConnections()
	a := vegeta.NewAttacker(vegeta.Client(conn))
	one := Config{Phases: []Phase{{Shape: Constant, Rate: 10, Duration: 100 * time.Millisecond}}}
	for res := range a.Attack(m.target, pace(t.Context(), one), 0, "") {
		if _, sale, n, err := m.numbered(res.URL); err != nil || sale != 0 || n != 0 {
			t.Errorf("URL %q of an attempt: got attempt %d of sale %d and error %v, want attempt 0 of sale 0", res.URL, n, sale, err)
		}
	}
	r := <-seen
	if r.RequestURI != "/v1/orders" || r.Header.Get("Idempotency-Key") == "" || r.Header.Get("X-Forwarded-For") != "10.0.0.1" {
		t.Errorf("request of an attempt: got %s with headers %v, want /v1/orders with a key and an address", r.RequestURI, r.Header)
	}
}

func TestNumberedRejectsUnknownURLs(t *testing.T) {
	p := testPlan(t, 1)
	m := newSaleMix(p.c, []*targets{p})
	for _, url := range []string{"", "x", "x#0", "x#0/0", "x#0/-1", "x#1/0", "x#-1/0", "x#x/0"} {
		if _, _, _, err := m.numbered(url); err == nil {
			t.Errorf("numbered(%q): got no error, want one", url)
		}
	}
}

func TestBuyersHaveDistinctNamesAndAddresses(t *testing.T) {
	c := newCrowd(fakeToken)
	check.Must(t, c.sign(3000))
	seen := map[string]bool{}
	for range 100 {
		b, err := c.fresh()
		check.Must(t, err)
		c.buyers = append(c.buyers, b)
	}
	for _, b := range c.buyers {
		if seen[b.Subject] || seen[b.IP] || !strings.HasPrefix(b.IP, "10.") || c.named(b.Subject) != b {
			t.Fatalf("buyer: got %+v, want a new subject and a new address in 10.0.0.0/8", b)
		}
		seen[b.Subject], seen[b.IP] = true, true
	}
	broken := errors.New("no key")
	if err := newCrowd(func(string, bool) (string, error) { return "", broken }).sign(10); !errors.Is(err, broken) {
		t.Errorf("sign tokens with a failing key: got error %v, want %v", err, broken)
	}
}
