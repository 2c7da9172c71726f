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

// followed reads the order at a Location until it is durable.
func followed(t *testing.T, f *front, location string) map[string]any {
	t.Helper()
	var o map[string]any
	check.Eventually(t, location+" is durable", func() bool {
		w, err := f.ask("GET", location, "")
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("GET %s: got %d, error %v, want 200", location, w.Code, err)
		}
		o, _ = object(t, w.Body.String())
		return o["status"] != "reserved"
	})
	return o
}

// A request with "Prefer: respond-async" is answered 202. The order at its Location is first
// reserved, and then durable.
func TestRespondAsync(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := serve(t, s, kit.Sale("S", 10, 10), nil)
		f := newFront(p.Service)
		for _, prefer := range []string{"respond-async", "wait=5, Respond-Async", `foo="bar", respond-async;x=1`} {
			w, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":1}`, "Prefer: "+prefer, "Idempotency-Key: k/"+prefer[:1])
			if err != nil || w.Code != http.StatusAccepted || w.Header().Get("Preference-Applied") != "respond-async" {
				t.Fatalf("Prefer: %s: got %d, error %v, want 202 with Preference-Applied", prefer, w.Code, err)
			}
			o, names := object(t, w.Body.String())
			if names != orderFields || o["status"] != "reserved" || o["expires_at"] != nil {
				t.Errorf("Prefer: %s: got %s, want a reserved order", prefer, w.Body)
			}
			location := w.Header().Get("Location")
			if !strings.Contains(location, "sku=S") || !strings.Contains(location, "key=k%2F") {
				t.Errorf("Location: got %s, want SKU and key", location)
			}
			if durable := followed(t, f, location); durable["id"] != o["id"] || durable["status"] != "pending_payment" || durable["created_at"] != o["created_at"] {
				t.Errorf("durable order after the 202: got %v in the 202 and %v as the row, want the same order", o, durable)
			}
		}
		if w, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":1}`, "Prefer: wait=5"); err != nil || w.Code != http.StatusCreated {
			t.Errorf("Prefer: wait=5: got %d, error %v, want 201", w.Code, err)
		}
	})
}

// A slowQueue is a Gate that reads the queue through another gate.
type slowQueue struct {
	shop.Gate
	queue keeper.Gate
}

func (g slowQueue) ReadQueue(ctx context.Context, sku, after string, limit int64) ([]inventory.QueuedOrder, error) {
	return g.queue.ReadQueue(ctx, sku, after, limit)
}

// The keeper stops, so the wait runs out and the answer is 202. The order cannot be paid or
// cancelled until the keeper continues.
func TestWaitRunsOut(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		step, resume := make(chan struct{}), make(chan struct{})
		p := serve(t, s, kit.Sale("S", 10, 10), func(c *shop.Config) {
			c.Wait = 50 * time.Millisecond
			c.Gate = slowQueue{c.Gate, bare.FaultyGate(c.Gate, func(at kit.Fault) error {
				if at == (kit.Fault{Step: "queue", After: true}) { // the queue was read, and its orders are not committed yet
					select {
					case step <- struct{}{}:
						<-resume
					default:
					}
				}
				return nil
			})}
		})
		f := newFront(p.Service)
		stopped := make(chan struct{})
		go func() { <-step; close(stopped) }()
		check.Eventually(t, "the keeper has stopped", func() bool {
			p.Controller().RequestInspect(t.Context(), "S")
			select {
			case <-stopped:
				return true
			default:
				return false
			}
		})
		w, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
		if err != nil || w.Code != http.StatusAccepted || w.Header().Get("Preference-Applied") != "" {
			t.Fatalf("order while the keeper stands still: got %d, error %v, want 202", w.Code, err)
		}
		o, _ := object(t, w.Body.String())
		id, location := o["id"].(string), w.Header().Get("Location")
		replay, err := f.ask("POST", "/v1/orders", `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
		if err != nil || replay.Code != http.StatusAccepted || replay.Header().Get("Location") != location || replay.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("replay: got %d %v, error %v, want 202 for %s", replay.Code, replay.Header(), err, location)
		}
		if w, err := f.ask("GET", location, ""); err != nil || !strings.Contains(w.Body.String(), `"status":"reserved"`) {
			t.Errorf("GET %s: got %s, error %v, want a reserved order", location, w.Body, err)
		}
		if w, err := f.ask("GET", "/v1/orders/"+id, ""); err != nil || !strings.Contains(w.Body.String(), `"status":"reserved"`) {
			t.Errorf("GET by id: got %s, error %v, want a reserved order", w.Body, err)
		}
		for _, call := range []string{"/cancel", "/pay"} {
			if _, err := f.ask("POST", "/v1/orders/"+id+call, `{"payment_ref":"r"}`); err == nil || err.Error() != orders.ErrInProgress.Error() {
				t.Errorf("%s of a reserved order: got error %v, want %v", call, err, orders.ErrInProgress)
			}
		}
		if _, err := f.ask("GET", location, "", "Buyer: eve"); err == nil || err.Error() != orders.ErrNotFound.Error() {
			t.Errorf("GET by another buyer: got error %v, want %v", err, orders.ErrNotFound)
		}
		if a, err := p.Audit(t.Context(), "S"); err != nil || a.Queued != 2 || a.Available != 8 || !a.Balanced {
			t.Errorf("audit: got %+v, error %v, want 2 queued and 8 available", a, err)
		}
		close(resume)
		if durable := followed(t, f, location); durable["id"] != id || durable["status"] != "pending_payment" {
			t.Errorf("order after the keeper continued: got %v, want %s pending", durable, id)
		}
	})
}

// A gate that has forgotten a key accepts a second order with that key. The Location of the
// second order leads to the first.
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
			t.Fatalf("second order: got %d, error %v, want 202", second.Code, err)
		}
		one, _ := object(t, first.Body.String())
		if o := followed(t, f, second.Header().Get("Location")); o["id"] != one["id"] {
			t.Errorf("order at the second Location: got %v, want the first order %v", o, one)
		}
		for range 2 {
			w, err := f.ask("POST", "/v1/orders", body, "Idempotency-Key: k")
			if err != nil || w.Body.String() != first.Body.String() {
				t.Errorf("replay: got %s, error %v, want %s", w.Body, err, first.Body)
			}
		}
		if a := bare.WaitSettled(t, p, "S"); a.Sold != 1 || a.Available != 9 {
			t.Errorf("audit: got %+v, want 1 sold and 9 available", a)
		}
	})
}
