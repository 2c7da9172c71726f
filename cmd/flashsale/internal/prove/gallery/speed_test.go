package gallery

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Where units are taken on payment, what is measured is a payment: the order's
// own answer counts only if it is a no.
func TestOrdersArePaidAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Header.Get("Authorization") != "Bearer ann":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/orders" && string(body) == "2":
			w.WriteHeader(http.StatusConflict)
		case r.URL.Path == "/v1/orders":
			w.Header().Set("Location", "/v1/orders/7")
			w.WriteHeader(http.StatusCreated)
		case r.URL.Path == "/v1/orders/7/pay" && string(body) == `{"payment_ref":"k"}`:
			_, _ = fmt.Fprint(w, "paid")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: andPay{http.DefaultTransport}}
	for quantity, want := range map[string]int{"1": http.StatusOK, "2": http.StatusConflict} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/orders", strings.NewReader(quantity))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer ann"}, "Idempotency-Key": {"k"}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", quantity, res.StatusCode, want)
		}
	}
}
