package loadtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"pgregory.net/rapid"
)

// Every shape sends the same number of requests, about in the time asked for.
func TestPace(t *testing.T) {
	for _, shape := range []string{Constant, Ramp, Burst} {
		t.Run(shape, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := Config{
					Shape: shape, Rate: rapid.IntRange(1, 5000).Draw(t, "rate"),
					Duration: time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second,
				}
				p, now, hits := pace(context.Background(), c), time.Duration(0), uint64(0)
				for {
					d, stop := p.Pace(now, hits)
					if stop {
						break
					}
					now, hits = now+max(d, 0), hits+1
				}
				if int(hits) != c.requests() {
					t.Fatalf("%d requests, want %d", hits, c.requests())
				}
				if late := c.Duration + c.Duration/10 + time.Second; now > late || shape != Burst && now < c.Duration*8/10-time.Second {
					t.Fatalf("took %v of %v", now, c.Duration)
				}
			})
		})
	}
}

func TestBurstWaitsForItsSecond(t *testing.T) {
	b := burst{size: 3, every: time.Second}
	for _, tc := range []struct {
		elapsed time.Duration
		hits    uint64
		want    time.Duration
	}{
		{0, 0, 0}, {0, 2, 0}, {10 * time.Millisecond, 3, 990 * time.Millisecond}, {time.Second, 5, 0}, {5 * time.Second, 6, 0},
	} {
		if got, _ := b.Pace(tc.elapsed, tc.hits); got != tc.want {
			t.Errorf("after %v and %d hits: wait %v, want %v", tc.elapsed, tc.hits, got, tc.want)
		}
	}
}

func testPlan(t testing.TB, seed int64) *targets {
	c := Defaults()
	c.Target, c.SKU, c.Seed = "http://sale.test/", "S", seed
	return newTargets(c, 0, newArrivals(c, testCrowd(t, 50)))
}

func testCrowd(t interface{ Fatal(...any) }, n int) []buyer {
	c := newCrowd(fakeToken)
	if err := c.sign(n); err != nil {
		t.Fatal(err)
	}
	return c.buyers
}

func TestPlanFollowsItsSeed(t *testing.T) {
	plan := func(seed int64) []attempt {
		p := testPlan(t, seed)
		var target vegeta.Target
		for n := range 200 {
			if err := p.target(&target); err != nil {
				t.Fatal(err)
			}
			if n%3 == 0 {
				p.took(n)
			}
		}
		return p.attempts
	}
	one := plan(1)
	if !reflect.DeepEqual(one, plan(1)) {
		t.Error("the same seed makes another plan")
	}
	if reflect.DeepEqual(one, plan(2)) {
		t.Error("another seed makes the same plan")
	}
}

// Whatever is answered, the plan keeps to what the verdict takes for granted.
func TestPlanMakesSense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Defaults()
		c.PerBuyerLimit = rapid.IntRange(1, 5).Draw(t, "limit")
		c.MaxQuantity = rapid.IntRange(1, c.PerBuyerLimit).Draw(t, "max")
		if rapid.Bool().Draw(t, "heavy buyers") {
			c.Zipf = 1.5
		}
		p := newTargets(c, 0, newArrivals(c, testCrowd(t, rapid.IntRange(1, 30).Draw(t, "buyers"))))
		m := newMix(c, []*targets{p})
		keys, came := map[string]attempt{}, map[string]bool{}
		for n := range 100 {
			var target vegeta.Target
			if err := m.target(&target); err != nil {
				t.Fatal(err)
			}
			a, _, got, err := m.numbered(target.URL)
			if err != nil || got != n {
				t.Fatalf("attempt %d came back as %d, %v", n, got, err)
			}
			first, known := keys[a.key]
			if known != (a.kind == Replay) || known && (first.buyer != a.buyer || first.quantity != a.quantity) {
				t.Fatalf("%+v after %+v", a, first)
			}
			if a.kind != Replay && came[a.buyer.subject] != (a.kind == Second) {
				t.Fatalf("%s by a buyer who came before: %v", a.kind, came[a.buyer.subject])
			}
			if a.quantity < 1 || a.quantity > c.MaxQuantity {
				t.Fatalf("quantity %d", a.quantity)
			}
			keys[a.key], came[a.buyer.subject] = a, true
			if rapid.Bool().Draw(t, "accepted") {
				p.took(n)
			}
		}
	})
}

// The number of an attempt comes back with its result and stays off the wire.
func TestAttemptNumberStaysHome(t *testing.T) {
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r }))
	defer server.Close()
	p := testPlan(t, 1)
	p.url = server.URL + "/v1/orders"
	m := newMix(p.c, []*targets{p})
	conns := transport(1)
	defer conns.CloseIdleConnections()
	a := vegeta.NewAttacker(vegeta.Client(&http.Client{Transport: conns}))
	one := Config{Phases: []Phase{{Shape: Constant, Rate: 10, Duration: 100 * time.Millisecond}}}
	for res := range a.Attack(m.target, pace(t.Context(), one), 0, "") {
		if _, sale, n, err := m.numbered(res.URL); err != nil || sale != 0 || n != 0 {
			t.Errorf("came back as %d of sale %d, %v", n, sale, err)
		}
	}
	r := <-seen
	if r.RequestURI != "/v1/orders" || r.Header.Get("Idempotency-Key") == "" || r.Header.Get("X-Forwarded-For") != "10.0.0.1" {
		t.Errorf("%s %v", r.RequestURI, r.Header)
	}
}

func TestNumberedRefusesStrangers(t *testing.T) {
	p := testPlan(t, 1)
	m := newMix(p.c, []*targets{p})
	for _, url := range []string{"", p.url, p.url + "#0", p.url + "#0/0", p.url + "#0/-1", p.url + "#1/0", p.url + "#-1/0", p.url + "#x/0"} {
		if _, _, _, err := m.numbered(url); err == nil {
			t.Errorf("%q was taken for an attempt", url)
		}
	}
}

func TestCrowdHasNamesAndAddressesOfItsOwn(t *testing.T) {
	c := newCrowd(fakeToken)
	if err := c.sign(3000); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 100 {
		b, err := c.fresh()
		if err != nil {
			t.Fatal(err)
		}
		c.buyers = append(c.buyers, b)
	}
	for _, b := range c.buyers {
		if seen[b.subject] || seen[b.ip] || !strings.HasPrefix(b.ip, "10.") || c.named(b.subject) != b {
			t.Fatalf("%+v", b)
		}
		seen[b.subject], seen[b.ip] = true, true
	}
	broken := errors.New("no key")
	if err := newCrowd(func(string, bool) (string, error) { return "", broken }).sign(10); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestDecodeNamesFaultsOfForm(t *testing.T) {
	order := `{"id":"x","sku":"S","buyer":"b","quantity":1,"status":"pending_payment","closed_at":null}`
	good := http.Header{"X-Request-Id": {"1"}, "Location": {"/v1/orders/x"}, "Content-Type": {"application/problem+json; charset=utf-8"}, "Retry-After": {"1"}}
	for _, tc := range []struct {
		status int
		drop   string
		body   string
		want   string
	}{
		{201, "", order, ""},
		{200, "Location", order, ""},
		{202, "Location", order, "no Location"},
		{201, "", `{}`, "no order in the body"},
		{201, "", `nonsense`, "no order in the body"},
		{201, "X-Request-Id", order, "no X-Request-Id"},
		{409, "", `{"code":"sold_out"}`, ""},
		{409, "", `{}`, "no problem code"},
		{409, "Content-Type", `{"code":"sold_out"}`, "not application/problem+json"},
		{429, "", `{"code":"rate_limited"}`, ""},
		{429, "Retry-After", `{"code":"rate_limited"}`, "no Retry-After of a second or more"},
		{503, "Retry-After", `{"code":"unavailable"}`, "no Retry-After of a second or more"},
		{0, "X-Request-Id", "", ""},
	} {
		h := good.Clone()
		h.Del(tc.drop)
		if got := decode(tc.status, h, []byte(tc.body)); got.Fault != tc.want {
			t.Errorf("%d without %q, %s: %q, want %q", tc.status, tc.drop, tc.body, got.Fault, tc.want)
		}
	}
}

// A buyer's token must not be carried elsewhere by a Location.
func TestLocationsAreFollowedAtHomeOnly(t *testing.T) {
	c := client{base: "http://sale.test/api"}
	for location, want := range map[string]string{
		"/api/v1/orders/x?sku=S&key=K": "/v1/orders/x?sku=S&key=K",
		"v1/orders/x":                  "/v1/orders/x",
		"http://sale.test/api/v1/x":    "/v1/x",
		"http://other.test/api/v1/x":   "",
		"//other.test/x":               "",
		"https://sale.test/api/v1/x":   "",
		"":                             "",
		"http://sale.test:bad/":        "",
	} {
		got, err := c.local(location)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", location, got, err, want)
		}
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
		if got := compact(v); got != want {
			t.Errorf("compact(%v) = %q, want %q", v, got, want)
		}
	}
}
