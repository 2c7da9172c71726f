package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/client"
)

// listed is a fake sale, and what GET /v1/sales says besides.
type listed struct {
	*fakeSale
	url   string
	state atomic.Value // of the sale
	opens time.Time
}

func newListed(t *testing.T, f fault) *listed {
	sale, handler := fakeHandler(f)
	l := &listed{fakeSale: sale}
	l.state.Store("open")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/sales" {
			handler.ServeHTTP(w, r)
			return
		}
		terms := client.Sale{PerBuyerLimit: 2, PaymentWindowS: 1, OpensAt: l.opens}
		mine := offered{Sale: terms, SKU: "mine", State: l.state.Load().(string), Available: 7}
		judged := offered{Sale: client.Sale{Name: client.Judged + "x"}, SKU: "judged", State: "open"}
		_ = json.NewEncoder(w).Encode(map[string]any{"sales": []offered{{SKU: "soon", State: "scheduled"}, judged, {SKU: "over", State: "closed"}, mine}})
	}))
	t.Cleanup(func() { close(sale.stop); server.Close() })
	l.url = server.URL
	conns := client.NewHTTP(1, time.Minute)
	defer conns.CloseIdleConnections()
	op := client.NewOperator(client.New(l.url, "mine", conns), "admin/op")
	_, err := op.Call(t.Context(), http.MethodPut, "/v1/admin/sales/mine", client.Sale{Total: 30, PerBuyerLimit: 2, PaymentWindowS: 900}, nil)
	noError(t, err)
	return l
}

// quickCrowd is a crowd of some hundred buyers.
func quickCrowd(url string) Config {
	c := Gentle()
	c.Target, c.Token, c.Rate, c.Duration = url, fakeToken, 300, time.Second
	return c
}

// A crowd waits until its sale opens. Its buyers pay, cancel, come back and hear
// that it is sold out.
func TestCrowd(t *testing.T) {
	t.Parallel()
	l := newListed(t, fault{async: true})
	l.opens = time.Now().Add(200 * time.Millisecond) // it waits so long
	l.state.Store("scheduled")                       // and the list is a moment old then
	c := quickCrowd(l.url)
	c.SKU = "mine"
	var progress bytes.Buffer
	c.Progress = &progress
	got, err := SendCrowd(t.Context(), c)
	noError(t, err)
	if got.Orders < 15 || got.Paid == 0 || got.Cancelled == 0 || got.SoldOut == 0 || got.Refused == 0 || got.Failed > 0 {
		t.Errorf("%v", got) // refused: who comes back is at the limit
	}
	says(t, progress.String(), "300 buyers per second come to mine", "7 left")
	for _, o := range l.rows {
		if o.Quantity > 2 || time.Since(l.opens) < time.Second {
			t.Errorf("%+v", o)
		}
	}
}

// A crowd that names no sale goes to the newest that is open and not judged. It ends
// with its sale, and with its context.
func TestCrowdEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l *listed, cancel func()){
		"the sale": func(l *listed, _ func()) { l.state.Store("closed") },
		"Ctrl-C":   func(_ *listed, cancel func()) { cancel() },
	} {
		l := newListed(t, fault{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := quickCrowd(l.url)
		c.Duration = time.Minute
		sold := make(chan struct{})
		go func() {
			defer close(sold)
			for client.Wait(ctx, 5*time.Millisecond) == nil {
				l.mu.Lock()
				n := len(l.rows)
				l.mu.Unlock()
				if n > 5 {
					end(l, cancel)
					return
				}
			}
		}()
		began := time.Now()
		got, err := SendCrowd(ctx, c)
		if err != nil || got.Orders == 0 || got.Failed > 0 || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %v, %v after %v", name, got, err, time.Since(began))
		}
		<-sold
	}
}

func TestCrowdSaysWhyItDoesNotCome(t *testing.T) {
	t.Parallel()
	l := newListed(t, fault{})
	for _, tc := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.SKU = "over" }, "crowd: over: no open sale at " + l.url},
		{func(c *Config) { c.SKU = "none" }, "crowd: none: no open sale at " + l.url},
		{func(c *Config) { l.state.Store("closed") }, "crowd: no open sale at " + l.url},
		{func(c *Config) { c.SKU = "judged" }, "crowd: a load test judges judged"},
		{func(c *Config) { c.Rate = 0 }, "Rate: 0"},
		{func(c *Config) { c.Duration = 24 * time.Hour }, "want 100000 at most"},
		{func(c *Config) { c.Target = "http://127.0.0.1:1" }, "crowd: GET /v1/sales: "},
	} {
		c := quickCrowd(l.url)
		tc.change(&c)
		_, err := SendCrowd(t.Context(), c)
		says(t, fmt.Sprint(err), tc.want)
	}
}
