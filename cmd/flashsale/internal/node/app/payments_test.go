package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/httpapi/payments"
)

// A bank is a payment provider. It records what was done with each payment.
type bank map[string]string

func (b bank) Open(_ context.Context, ref string) (bool, error) { return b[ref] != "returned", nil }
func (b bank) Capture(_ context.Context, ref string) error      { b[ref] = "captured"; return nil }
func (b bank) Return(_ context.Context, ref string) error       { b[ref] = "returned"; return nil }

// The example of a payment provider's callback works with a node. Each report is sent until the
// callback accepts it, and then once more.
func TestPaymentCallback(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, func(c *Config) { c.PayScope = "payments" })
		n.put("S", 3, 9, 900).ok()
		n.put("P", 1, 9, 900, onPayment).ok()
		key, b := []byte("shared with the provider"), bank{}
		callback := &payments.Callback{
			Secret: key, Shop: n.URL(), Client: &http.Client{Timeout: time.Minute}, Provider: b, Log: check.Log(t), Now: time.Now,
			Token: func() (string, error) { return n.verifier.SignScope("provider", "payments", time.Minute) },
		}
		report := func(event, order, ref string, amount int) {
			t.Helper()
			body := fmt.Sprintf(`{"event":%q,"order":%q,"payment_ref":%q,"amount":%d,"currency":"EUR"}`, event, order, ref, amount)
			for range 2 {
				check.Eventually(t, "the callback accepts the report of "+ref, func() bool {
					r, at := httptest.NewRequest("POST", "/", strings.NewReader(body)), strconv.FormatInt(time.Now().Unix(), 10)
					r.Header.Set(payments.TimestampHeader, at)
					r.Header.Set(payments.SignatureHeader, payments.Sign(key, at, []byte(body)))
					w := httptest.NewRecorder()
					callback.ServeHTTP(w, r)
					if w.Code != 204 && w.Code != 503 {
						t.Errorf("report of %s: got %d, want 204", ref, w.Code)
					}
					return w.Code == 204
				})
			}
		}
		status := func(order, want string) {
			t.Helper()
			n.send("GET", "/v1/admin/orders/"+order, n.token("op", true), "").want(200).contains(`"status":"` + want + `"`)
		}

		ann := n.sold("S", "ann").id()
		report("captured", ann, "less", 1)
		status(ann, "pending_payment")
		report("captured", ann, "right", 1999)
		status(ann, "paid")
		report("captured", ann, "twice", 1999)
		bob := n.sold("S", "bob")
		n.cancel("bob", bob.where()).want(200)
		report("captured", bob.id(), "late", 1999)
		refunds := n.send("GET", "/v1/admin/refunds", n.token("op", true), "").want(200)
		for _, ref := range []string{"less", "late"} {
			refunds.contains(`"payment_ref":"` + ref + `"`)
		}
		refunds.contains(`"amount_mismatch"`)

		first, second := n.sold("P", "ann").id(), n.sold("P", "bob").id()
		report("authorized", first, "auth-1", 1999)
		report("authorized", second, "auth-2", 1999)
		status(first, "paid")
		status(second, "pending_payment")
		if b["auth-1"] != "captured" || b["auth-2"] != "returned" || b["twice"] != "returned" || len(b) != 3 {
			t.Errorf("payments: got %v, want auth-1 captured, and auth-2 and twice returned", b)
		}
	})
}
