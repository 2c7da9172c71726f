package payments_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"flashsale/orders/httpapi/payments"
)

// A shop answers pay with one status and code. It records the last request.
type shop struct {
	status   int
	code     string
	asked    string
	requests atomic.Int32 // in progress
	overlaps atomic.Int32 // requests that began during another one
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.requests.Add(1) > 1 {
		s.overlaps.Add(1)
	}
	defer s.requests.Add(-1)
	for range 100 { // let other requests begin
		runtime.Gosched()
	}
	body, _ := io.ReadAll(r.Body)
	s.asked = r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
	w.WriteHeader(s.status)
	_, _ = fmt.Fprintf(w, `{"code":%q}`, s.code)
}

// A bank is the provider's API. It records what was done with the payment.
type bank struct {
	done string
	err  error // of the next Capture or Return
}

func (b *bank) Open(context.Context, string) (bool, error) { return b.done != "returned", nil }

func (b *bank) Capture(context.Context, string) error {
	if b.err == nil {
		b.done = "captured"
	}
	return b.err
}

func (b *bank) Return(context.Context, string) error {
	if b.err == nil {
		b.done = "returned"
	}
	return b.err
}

var secret = []byte("shared with the provider")

const order = "01932c07-2f4a-7c31-9d02-5b0f6f1e8a10"

// open starts the shop, and returns its callback.
func open(s *shop, b *bank) (callback *payments.Callback, stop func()) {
	server := httptest.NewServer(s)
	return &payments.Callback{
		Secret: secret, Shop: server.URL, Token: func() (string, error) { return "TOKEN", nil },
		Client: &http.Client{Timeout: time.Minute}, Provider: b, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}, server.Close
}

// report calls the callback as the provider does, and returns the status of the answer.
func report(callback http.Handler, body string, change ...func(http.Header)) int {
	r := httptest.NewRequest("POST", "/callback", bytes.NewReader([]byte(body)))
	sign(r.Header, body, time.Now())
	for _, f := range change {
		f(r.Header)
	}
	w := httptest.NewRecorder()
	callback.ServeHTTP(w, r)
	return w.Code
}

// sign adds the provider's headers.
func sign(h http.Header, body string, at time.Time) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	h.Set(payments.TimestampHeader, seconds)
	h.Set(payments.SignatureHeader, payments.Sign(secret, seconds, []byte(body)))
}

func event(name string) string {
	return `{"event":"` + name + `","order":"` + order + `","payment_ref":"p-1","amount":12900,"currency":"EUR"}`
}

// The provider charges a buyer, and reports it until the shop has answered.
func Example() {
	s := &shop{status: 503}
	callback, stop := open(s, &bank{})
	defer stop()
	fmt.Println("MySQL is away:", report(callback, event("captured")))
	s.status = 200
	fmt.Println("the order is paid:", report(callback, event("captured")))
	fmt.Println(s.asked)
	s.status, s.code = 409, "order_closed"
	fmt.Println("the order has expired, a refund claim is recorded:", report(callback, event("captured")))
	fmt.Println("a forged report:", report(callback, event("captured"), func(h http.Header) { h.Set(payments.SignatureHeader, "00") }))
	// Output:
	// MySQL is away: 503
	// the order is paid: 204
	// /v1/orders/01932c07-2f4a-7c31-9d02-5b0f6f1e8a10/pay Bearer TOKEN {"amount":12900,"currency":"EUR","payment_ref":"p-1"}
	// the order has expired, a refund claim is recorded: 204
	// a forged report: 401
}
