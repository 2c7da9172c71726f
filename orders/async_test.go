package orders

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// followed asks where Location points until the order is durable.
func followed(t *testing.T, f *front, where string) map[string]any {
	t.Helper()
	var o map[string]any
	eventually(t, where+" is durable", func() bool {
		w, err := f.ask("GET", where, "")
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", where, w.Code, err)
		}
		o, _ = object(t, w.Body.String())
		return o["status"] != "reserved"
	})
	return o
}

// Who does not want to wait is answered 202 and finds the order at Location,
// first reserved, then durable.
func TestRespondAsync(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, sale("S", 10, 10))
		f := newFront(p.Service)
		for _, prefer := range []string{"respond-async", "wait=5, Respond-Async", `foo="bar", respond-async;x=1`} {
			w, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":1}`, "Prefer: "+prefer, "Idempotency-Key: k/"+prefer[:1])
			if err != nil || w.Code != http.StatusAccepted || w.Header().Get("Preference-Applied") != "respond-async" {
				t.Fatalf("%s: %d, %v", prefer, w.Code, err)
			}
			o, names := object(t, w.Body.String())
			if names != orderFields || o["status"] != "reserved" || o["expires_at"] != nil {
				t.Errorf("%s", w.Body)
			}
			where := w.Header().Get("Location")
			if !strings.Contains(where, "sku=S") || !strings.Contains(where, "key=k%2F") {
				t.Errorf("Location: %s", where)
			}
			if durable := followed(t, f, where); durable["id"] != o["id"] || durable["status"] != "pending_payment" || durable["created_at"] != o["created_at"] {
				t.Errorf("%v, then %v", o, durable)
			}
		}
		if w, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":1}`, "Prefer: wait=5"); err != nil || w.Code != http.StatusCreated {
			t.Errorf("%d, %v", w.Code, err)
		}
	})
}

// The wait runs out, because the keeper stands still: 202; the order cannot be
// paid or cancelled yet; then the keeper goes on.
func TestWaitRunsOut(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		step, goOn := make(chan struct{}), make(chan struct{})
		p := open(t, s, func(c *Config) {
			c.Wait = 50 * time.Millisecond
			c.Gate = faultyGate{c.Gate, func(at fault) error {
				if at == (fault{step: "queue", after: true}) { // read, and not yet committed
					select {
					case step <- struct{}{}:
						<-goOn
					default:
					}
				}
				return nil
			}}
		})
		p.put(t, sale("S", 10, 10))
		f := newFront(p.Service)
		waiting := make(chan struct{})
		go func() { <-step; close(waiting) }()
		// Wake it up until it stands still: the next order finds it so.
		eventually(t, "the keeper stands still", func() bool {
			p.keepers.wake("S", nil)
			select {
			case <-waiting:
				return true
			default:
				return false
			}
		})
		w, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
		if err != nil || w.Code != http.StatusAccepted || w.Header().Get("Preference-Applied") != "" {
			t.Fatalf("%d, %v", w.Code, err)
		}
		o, _ := object(t, w.Body.String())
		id, where := o["id"].(string), w.Header().Get("Location")
		again, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
		if err != nil || again.Code != http.StatusAccepted || again.Header().Get("Location") != where || again.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("replay: %d %v, %v", again.Code, again.Header(), err)
		}
		if w, err := f.ask("GET", where, ""); err != nil || !strings.Contains(w.Body.String(), `"status":"reserved"`) {
			t.Errorf("get: %s, %v", w.Body, err)
		}
		if w, err := f.ask("GET", "/v1/orders/"+id, ""); err != nil || !strings.Contains(w.Body.String(), `"status":"reserved"`) {
			t.Errorf("get by id alone: %s, %v", w.Body, err)
		}
		for _, call := range []string{"/cancel", "/pay"} {
			if _, err := f.ask("POST", "/v1/orders/"+id+call, `{"payment_ref":"r"}`); err == nil || err.Error() != ErrInProgress.Error() {
				t.Errorf("%s: %v", call, err)
			}
		}
		if _, err := f.ask("GET", where, "", "Buyer: eve"); err == nil || err.Error() != ErrNotFound.Error() {
			t.Errorf("eve: %v", err)
		}
		if a, err := p.Audit(t.Context(), "S"); err != nil || a.Held != 2 || a.Available != 8 || !a.Balanced {
			t.Errorf("audit: %+v, %v", a, err)
		}
		close(goOn)
		if durable := followed(t, f, where); durable["id"] != id || durable["status"] != "pending_payment" {
			t.Errorf("%v", durable)
		}
	})
}

// An order of a gate that had forgotten its key turns out to be the second one
// under it: Location leads to the first.
func TestLocationFallsBackToTheKey(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, sale("S", 10, 10))
		f := newFront(p.Service)
		body := `{"sku":"S","quantity":1}`
		first, err := f.ask("POST", "/v1/orders", body, "Idempotency-Key: k")
		if err != nil {
			t.Fatal(err)
		}
		keys, err := p.rdb.Keys(t.Context(), "*:keys").Result()
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		p.rdb.Del(t.Context(), keys...)
		second, err := f.ask("POST", "/v1/orders", body, "Idempotency-Key: k", "Prefer: respond-async")
		if err != nil || second.Code != http.StatusAccepted {
			t.Fatalf("%d, %v", second.Code, err)
		}
		one, _ := object(t, first.Body.String())
		if o := followed(t, f, second.Header().Get("Location")); o["id"] != one["id"] {
			t.Errorf("%v, the first was %v", o, one)
		}
		// From now on replays find the first at once, though the gate names the second.
		for range 2 {
			start := time.Now()
			w, err := f.ask("POST", "/v1/orders", body, "Idempotency-Key: k")
			if err != nil || w.Body.String() != first.Body.String() || time.Since(start) > p.cfg.Wait/2 {
				t.Errorf("after %v: %s, %v", time.Since(start), w.Body, err)
			}
		}
		if a := p.settled(t, "S"); a.Sold != 1 || a.Available != 9 {
			t.Errorf("%+v", a)
		}
	})
}
