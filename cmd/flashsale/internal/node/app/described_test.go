package app

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"flashsale/cmd/flashsale/internal/node/web"
	"flashsale/loadtest/servers/servertest/check"
)

var routes = sync.OnceValues(func() (routers.Router, error) {
	for _, text := range []string{"text/html", "text/css", "text/event-stream", "application/yaml"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.PlainBodyDecoder)
	}
	doc, err := openapi3.NewLoader().LoadFromData(web.OpenAPI)
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// asDescribed fails the test if a response does not match openapi.yaml. All responses in
// these tests are checked.
func asDescribed(t testing.TB, req *http.Request, res *http.Response, body []byte) {
	t.Helper()
	if err := checkResponse(t, req, res, body); err != nil {
		t.Errorf("%s %s: the answer %d does not match openapi.yaml: %v\n%s", req.Method, req.URL.Path, res.StatusCode, err, body)
	}
}

func checkResponse(t testing.TB, req *http.Request, res *http.Response, body []byte) error {
	t.Helper()
	router, err := routes()
	check.Must(t, err)
	here := req.Clone(t.Context())
	here.URL.Scheme, here.URL.Host, here.Host = "", "", ""
	if req.Method == http.MethodHead {
		here.Method = http.MethodGet
	}
	route, params, err := router.FindRoute(here)
	if err != nil { // unknown route or method
		if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed {
			return nil
		}
		return err
	}
	return openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: here, PathParams: params, Route: route},
		Status:                 res.StatusCode,
		Header:                 res.Header,
		Body:                   io.NopCloser(bytes.NewReader(body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: req.Method == http.MethodHead},
	})
}

// checkResponse finds unknown fields, codes and statuses, and missing headers and fields.
func TestAsDescribedFindsDeviations(t *testing.T) {
	t.Parallel()
	const right = `{"type":"about:blank","title":"Too Many Requests","status":429,"code":"rate_limited"}`
	header := http.Header{
		"Content-Type": {"application/problem+json"}, "X-Request-Id": {"x"},
		"Retry-After": {"1"}, "Ratelimit": {"x"}, "Ratelimit-Policy": {"x"},
	}
	without := header.Clone()
	without.Del("RateLimit")
	never := header.Clone()
	never.Set("Retry-After", "0")
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		ok     bool
	}{
		"right":               {429, header, right, true},
		"a field too many":    {429, header, strings.Replace(right, "{", `{"trace":"…",`, 1), false},
		"an unknown code":     {429, header, strings.Replace(right, "rate_limited", "too_fast", 1), false},
		"an unknown status":   {418, header, right, false},
		"no RateLimit":        {429, without, right, false},
		"Retry-After: 0":      {429, never, right, false},
		"a field that is not": {429, header, `{"type":"about:blank","title":"Too Many Requests","status":429}`, false},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node/v1/sales/S", nil)
		check.Must(t, err)
		err = checkResponse(t, req, &http.Response{StatusCode: c.status, Header: c.header}, []byte(c.body))
		if (err == nil) != c.ok {
			t.Errorf("answer %s checked against openapi.yaml: got error %v, want it to match: %v", name, err, c.ok)
		}
	}
}
