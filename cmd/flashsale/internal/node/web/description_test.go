package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
)

func described(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		t.Fatalf("openapi.yaml: got error %v, want a valid description", err)
	}
	return doc
}

func router(t *testing.T) *Server {
	t.Helper()
	s, err := New(Config{Registry: prometheus.NewRegistry(), Metrics: true, Demo: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("build the router: got error %v, want none", err)
	}
	return s
}

func TestDescriptionIsValid(t *testing.T) {
	if err := described(t).Validate(t.Context()); err != nil {
		t.Errorf("validate openapi.yaml: got error %v, want none", err)
	}
}

// openapi.yaml describes exactly the routes of the router. Each route with GET also has HEAD.
func TestDescriptionMatchesRoutes(t *testing.T) {
	var documented, served []string
	for path, item := range described(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
			if method == http.MethodGet {
				documented = append(documented, http.MethodHead+" "+path)
			}
		}
	}
	for _, r := range router(t).engine.Routes() {
		var path []string
		for _, part := range strings.Split(r.Path, "/") {
			if name, ok := strings.CutPrefix(part, ":"); ok {
				part = "{" + name + "}"
			}
			path = append(path, part)
		}
		served = append(served, r.Method+" "+strings.Join(path, "/"))
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("routes: openapi.yaml describes\n%s\nand the server has\n%s\nwant the same routes", strings.Join(documented, "\n"), strings.Join(served, "\n"))
	}
}

// openapi.yaml lists exactly the codes of failures and the three codes outside the table.
func TestDescriptionHasTheCodes(t *testing.T) {
	documented := map[string]bool{}
	for _, code := range described(t).Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		documented[code.(string)] = true
	}
	served := map[string]bool{"invalid_request": true, "rate_limited": true, "unavailable": true}
	for _, f := range failures {
		served[f.code] = true
	}
	for code := range served {
		if !documented[code] {
			t.Errorf("openapi.yaml: got no code %s, want every code that the server returns", code)
		}
	}
	for code := range documented {
		if !served[code] {
			t.Errorf("codes of openapi.yaml: no response of the server has the code %s", code)
		}
	}
}

// If a change is stored but not yet at the gate, the response reports this. Otherwise the
// operator would repeat the change.
func TestStoredChangeIsReported(t *testing.T) {
	err := errors.Join(orders.ErrUnavailable, orders.ErrOnItsWay, inventory.ErrNoGate)
	for _, f := range failures {
		if errors.Is(err, f.err) {
			if f.status != 503 || !strings.Contains(f.detail, "The change is stored") {
				t.Errorf("answer to a stored change: got %d %s, want 503 and the text that the change is stored", f.status, f.detail)
			}
			return
		}
	}
	t.Error("failure of a stored change: got no matching row in the table of failures, want one")
}

// An error of the limiter has the same status and code as in httplimit.
func TestErrorsOfTheLimiter(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("%w: no id", ratelimit.ErrBadRequest), fmt.Errorf("%w: no Redis", ratelimit.ErrUnavailable),
		&admission.LimitedError{Result: ratelimit.Result{Bucket: "ip", RetryAfter: time.Second}},
	} {
		want, got := httptest.NewRecorder(), httptest.NewRecorder()
		httplimit.Refuse(want, nil, err)
		c, _ := gin.CreateTestContext(got)
		c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		router(t).fail(c, err)
		var is, should problem
		if json.Unmarshal(got.Body.Bytes(), &is) != nil || json.Unmarshal(want.Body.Bytes(), &should) != nil || got.Code != want.Code || is.Code != should.Code {
			t.Errorf("answer to %v: got %d %s, want %d %s", err, got.Code, got.Body, want.Code, want.Body)
		}
	}
}

func TestReadablePage(t *testing.T) {
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		router(t).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	page := get("/docs").Body.String()
	for _, want := range []string{
		`<b class="POST">POST</b> /v1/orders/{id}/pay`, "buyer_limit", "per_buyer_limit", "cacheable for a second",
		"<code>Idempotent-Replayed: true</code>", "string: reserved, pending_payment, paid",
		`payment_ref</th><td><small>string</small> <em>required</em>`,
		`<th scope="row">sales[].opens_at</th><td><small>date-time</small>`, // a field of a response
		`<pre>curl -X POST "http://example.com/v1/orders/$ORDER/pay" -H "Authorization: Bearer $BUYER" --json '{
  "payment_ref": &#34;p-1&#34;
}'</pre>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page of the API: got no text %q", want)
		}
	}
	if len(page) > 100_000 {
		t.Errorf("page of the API: got %d bytes, want at most 100 kB", len(page))
	}
	for host, want := range map[string]string{"shop.test:81": "http://shop.test:81", "$(reboot)": "http://localhost:8080"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs", nil)
		r.Host = host
		if got := address(r); got != want {
			t.Errorf("address of the host %s: got %s, want %s", host, got, want)
		}
	}
	if got := get("/openapi.yaml").Body.String(); got != string(OpenAPI) {
		t.Errorf("/openapi.yaml: got %.80q, want the embedded description", got)
	}
}
