package client

import (
	"net/http"
	"testing"
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
