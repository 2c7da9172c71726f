package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

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
		if got := Decode(tc.status, h, []byte(tc.body)); got.Fault != tc.want {
			t.Errorf("decode %d without header %q, body %s: got fault %q, want %q", tc.status, tc.drop, tc.body, got.Fault, tc.want)
		}
	}
}

// A Location must not send a buyer's token to another host.
func TestLocationOnAnotherHostIsRejected(t *testing.T) {
	c := Client{base: "http://sale.test/api"}
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
			t.Errorf("Location %q: got %q, error %v, want %q", location, got, err, want)
		}
	}
}

// A list that repeats its pages with new cursors ends with an error.
func TestRowsEndIfPagesRepeat(t *testing.T) {
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if pages++; pages > 5 {
			t.Errorf("page %d was read, want an end", pages)
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"orders":[{"id":"o-1"}],"next_cursor":"%d"}`, pages)
	}))
	t.Cleanup(server.Close)
	conns := NewHTTP(1, time.Minute)
	defer conns.CloseIdleConnections()
	o := NewOperator(New(server.URL, "S", conns), "")
	if _, err := o.Rows(t.Context()); err == nil || !strings.Contains(err.Error(), "begins with order o-1 again") {
		t.Errorf("rows of a list that repeats: got error %v, want one that names the order", err)
	}
}
