package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/shop"
)

// followed asks where Location points until the order is durable.
func followed(t *testing.T, f *front, where string) map[string]any {
	t.Helper()
	var o map[string]any
	check.Eventually(t, where+" is durable", func() bool {
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
		p := serve(t, s, kit.Sale("S", 10, 10), nil)
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

// A slowQueue is a gate whose queue is read through another.
type slowQueue struct {
	shop.Gate
	queue keeper.Gate
}

func (g slowQueue) Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error) {
	return g.queue.Queue(ctx, sku, after, limit)
}

// The wait runs out, because the keeper stands still: 202; the order cannot be
// paid or cancelled yet; then the keeper goes on.
func TestWaitRunsOut(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		step, goOn := make(chan struct{}), make(chan struct{})
		p := serve(t, s, kit.Sale("S", 10, 10), func(c *shop.Config) {
			c.Wait = 50 * time.Millisecond
			c.Gate = slowQueue{c.Gate, bare.Faulty(c.Gate, func(at kit.Fault) error {
				if at == (kit.Fault{Step: "queue", After: true}) { // read, and not yet committed
					select {
					case step <- struct{}{}:
						<-goOn
					default:
					}
				}
				return nil
			})}
		})
		f := newFront(p.Service)
		waiting := make(chan struct{})
		go func() { <-step; close(waiting) }()
		// Wake it up until it stands still: the next order finds it so.
		check.Eventually(t, "the keeper stands still", func() bool {
			p.Keepers().RequestInspect(t.Context(), "S")
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
			if _, err := f.ask("POST", "/v1/orders/"+id+call, `{"payment_ref":"r"}`); err == nil || err.Error() != orders.ErrInProgress.Error() {
				t.Errorf("%s: %v", call, err)
			}
		}
		if _, err := f.ask("GET", where, "", "Buyer: eve"); err == nil || err.Error() != orders.ErrNotFound.Error() {
			t.Errorf("eve: %v", err)
		}
		if a, err := p.Audit(t.Context(), "S"); err != nil || a.Queued != 2 || a.Available != 8 || !a.Balanced {
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
		p := serve(t, s, kit.Sale("S", 10, 10), func(c *shop.Config) { c.Wait = time.Hour })
		f := newFront(p.Service)
		body := `{"sku":"S","quantity":1}`
		first, err := f.ask("POST", "/v1/orders", body, "Idempotency-Key: k")
		check.Must(t, err)
		check.Eventually(t, "the gate has forgotten the key", func() bool {
			keys, err := p.rdb.Keys(t.Context(), "*:keys").Result()
			return err == nil && len(keys) == 0
		})
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
			w, err := f.ask("POST", "/v1/orders", body, "Idempotency-Key: k")
			if err != nil || w.Body.String() != first.Body.String() {
				t.Errorf("%s, %v", w.Body, err)
			}
		}
		if a := bare.Settled(t, p, "S"); a.Sold != 1 || a.Available != 9 {
			t.Errorf("%+v", a)
		}
	})
}
