package gentle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"flashsale/loadtest/client"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is a fake server. Its sale "mine" has 40 units. A new key may first be answered with 503 or
// 202, and then with the decision.
type shop struct {
	mu              sync.Mutex
	state           string // state of the sale "mine"
	opens           time.Time
	sold            int
	requests        map[string]int // number of requests by key
	paid, cancelled map[string]bool
	early           bool // an order arrived before the opening
}

func newShop(state string, opens time.Time) (*shop, Config) {
	s := &shop{state: state, opens: opens, requests: map[string]int{}, paid: map[string]bool{}, cancelled: map[string]bool{}}
	return s, Config{
		Target: "http://shop.test", Rate: 300, Duration: time.Second, Progress: &bytes.Buffer{}, calls: s,
		Token: func(subject string, _ bool) (string, error) { return subject, nil },
	}
}

// RoundTrip answers without a network connection, because the clock of a synctest bubble stands
// still while a goroutine waits for one.
func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "x")
	w.Header().Set("Location", "/")
	answer := func(status int, code, id string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "id": id})
	}
	key, path := r.Header.Get("Idempotency-Key"), strings.Split(r.URL.Path, "/") // /v1/orders/ID/pay
	switch {
	case r.URL.Path != "/v1/sales" && r.Header.Get("Authorization") == "Bearer stranger":
		answer(401, "unauthorized", "")
	case r.Method == http.MethodGet && r.URL.Path == "/v1/orders":
		answer(200, "", "")
	case r.URL.Path == "/v1/sales":
		terms := client.Sale{UnitsPerBuyer: 2, PaymentWindowS: 1, OpensAt: s.opens}
		_ = json.NewEncoder(w).Encode(map[string]any{"sales": []client.Offer{
			{SKU: "soon", State: "scheduled"}, {Sale: client.Sale{Name: client.JudgedNamePrefix + "x"}, SKU: "judged", State: "open"}, {SKU: "over", State: "closed"},
			{Sale: terms, SKU: "mine", State: s.state, Available: int64(40 - s.sold)},
		}})
	case len(path) == 5 && path[4] == "pay":
		s.paid[path[3]] = true
		answer(200, "", path[3])
	case len(path) == 5:
		s.cancelled[path[3]] = true
		answer(200, "", path[3])
	default:
		s.early = s.early || time.Now().Before(s.opens)
		switch s.requests[key]++; {
		case s.requests[key] == 1 && s.sold%3 == 1:
			answer(503, "unavailable", "")
		case s.requests[key] == 1 && s.sold%3 == 2:
			answer(202, "", key)
		case strings.HasSuffix(key, "-3"):
			answer(409, "buyer_limit", "")
		case s.sold == 40:
			answer(409, "sold_out", "")
		default:
			s.sold++
			answer(201, "", key)
		}
	}
	return w.Result(), nil
}

// A crowd waits for the opening of its sale. Its buyers repeat orders until a final answer, pay,
// cancel, and order again.
func TestCrowdOrdersPaysAndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newShop("scheduled", time.Now().Add(200*time.Millisecond)) // the state stays "scheduled", as in a cached list
		c.SKU, c.Duration = "mine", 3*time.Second
		got, err := Run(t.Context(), c)
		check.Must(t, err)
		visits, second, third := 0, 0, 0
		for key := range s.requests {
			switch visits++; {
			case strings.HasSuffix(key, "-2"):
				second++
			case strings.HasSuffix(key, "-3"):
				third++
			}
		}
		counted := int(got.Orders.Load() + got.SoldOut.Load() + got.Refused.Load() + got.Failed.Load())
		if got.Orders.Load() != 40 || got.SoldOut.Load() == 0 || int(got.Refused.Load()) > third || counted != visits || second == 0 || s.early {
			t.Errorf("crowd: got %v in %d visits, %d second visits, early orders %t, want 40 orders, some sold out, at most %d refused, an answer per visit, second visits, no early order",
				got, visits, second, s.early, third)
		}
		if len(s.paid) < 10 || len(s.cancelled) == 0 || len(s.paid)+len(s.cancelled) > 40 {
			t.Errorf("orders of the crowd: got %d paid and %d cancelled, want at least 10 and 1, at most 40 together", len(s.paid), len(s.cancelled))
		}
	})
}

// A crowd without a SKU chooses the newest open sale that is not judged. It ends when the sale is
// closed or its context ends.
func TestCrowdEndsWithSaleOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []string{"sale", "context"} {
			s, c := newShop("open", time.Time{})
			c.Duration = time.Minute
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.Token = func(subject string, _ bool) (string, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if subject == "crowd" {
					return subject, nil
				}
				if end == "sale" {
					s.state = "closed"
				} else if s.sold > 0 {
					cancel()
				}
				return subject, nil
			}
			began := time.Now()
			got, err := Run(ctx, c)
			if took := time.Since(began); err != nil || got.Orders.Load() == 0 || took > 20*time.Second {
				t.Errorf("crowd after the end of the %s: got error %v, %v after %v, want orders and an end within 20s", end, err, got, took)
			}
		}
	})
}

func TestRunReturnsError(t *testing.T) {
	t.Parallel()
	_, sound := newShop("closed", time.Time{})
	for _, tc := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.SKU = "over" }, "crowd: over: no open sale at http"},
		{func(c *Config) { c.SKU = "none" }, "crowd: none: no open sale at http"},
		{func(c *Config) {}, "crowd: no open sale at http"},
		{func(c *Config) { c.SKU = "judged" }, "crowd: a load test judges judged"},
		{func(c *Config) { c.Rate = 0 }, "crowd: rate 0 for 1s: want"},
		{func(c *Config) { c.Rate = 1001 }, "crowd: rate 1001 for 1s: want 1 to 1000 orders per second"},
		{func(c *Config) {
			c.SKU, c.Token = "soon", func(string, bool) (string, error) { return "stranger", nil }
		}, "crowd: GET http"},
		{func(c *Config) { c.Target, c.calls = "http://127.0.0.1:1", nil }, `crowd: Get "http://127.0.0.1:1/v1/sales": `},
	} {
		c := sound
		tc.change(&c)
		if _, err := Run(t.Context(), c); !strings.HasPrefix(fmt.Sprint(err), tc.want) {
			t.Errorf("Run with an error: got %v, want prefix %s", err, tc.want)
		}
	}
}
