package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest/check"
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
	if line := regexp.MustCompile(`(?m)^ +[0-9]+[.)] .*`).Find(OpenAPI); line != nil {
		t.Errorf("openapi.yaml: got the line %s, which would be an item of a list in Markdown, want another line break", line)
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

// Each failure of openapi.yaml names its codes and shows an example of each, as the server sends
// it. Each other JSON response shows an example, which TestDescriptionIsValid validates.
func TestDescriptionHasExamples(t *testing.T) {
	sent := map[string]bool{}
	for _, p := range []problem{
		newProblem(400, "invalid_request", "The request is malformed."), newProblem(503, "unavailable", unavailable),
		newProblem(429, "rate_limited", "Too many requests. The header Retry-After contains the time to wait."),
	} {
		sent[fmt.Sprint(p.Status, p.Code, p.Title, p.Detail)] = true
	}
	for _, f := range failures {
		sent[fmt.Sprint(f.status, f.code, http.StatusText(f.status), f.detail)] = true
	}
	for path, item := range described(t).Paths.Map() {
		for method, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				if body := r.Value.Content["application/json"]; body != nil && body.Example == nil {
					t.Errorf("%s %s: response %s has no example, want one", method, path, status)
				}
				body := r.Value.Content["application/problem+json"]
				if body == nil {
					continue
				}
				for _, code := range body.Schema.Value.AllOf[1].Value.Properties["code"].Value.Enum {
					example := body.Example
					if e := body.Examples[code.(string)]; e != nil {
						example = e.Value.Value
					}
					p, _ := example.(map[string]any)
					if text := fmt.Sprint(p["status"], p["code"], p["title"], p["detail"]); p["code"] != code || !sent[text] || !strings.HasPrefix(text, status) {
						t.Errorf("%s %s: got the example %v of %s %v, want the body that the server sends", method, path, p, status, code)
					}
				}
			}
		}
	}
}

// openapi.yaml and the files of the page are sent compressed if the client accepts that, and are not
// sent again if the client has them.
func TestDocsAreServed(t *testing.T) {
	s := router(t)
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		s.ServeHTTP(w, r)
		return w
	}
	bundle, err := docs.ReadFile("docs/swagger-ui/swagger-ui-bundle.js")
	check.Must(t, err)
	for path, want := range map[string]string{"/openapi.yaml": string(OpenAPI), "/docs/swagger-ui-bundle.js": string(bundle)} {
		tags := map[string]string{}
		for accept, encoding := range map[string]string{"": "", "br, gzip;q=0": "", "gzip, br": "gzip", "gzip;q=0.5": "gzip"} {
			w := get(path, "Accept-Encoding: "+accept)
			text, tag := w.Body.String(), w.Header().Get("ETag")
			tags[tag] = encoding
			if encoding != "" {
				unpacked, err := gzip.NewReader(w.Body)
				check.Must(t, err)
				raw, err := io.ReadAll(unpacked)
				check.Must(t, err)
				text = string(raw)
			}
			if text != want || w.Header().Get("Content-Encoding") != encoding || w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s for a client that accepts %q: got %d bytes with %v, want %d with the encoding %q", path, accept, len(text), w.Header(), len(want), encoding)
			}
			for known, want := range map[string]int{"W/" + tag: 304, `"another"`: 200} {
				if w := get(path, "Accept-Encoding: "+accept, "If-None-Match: "+known); w.Code != want || want == 304 && w.Body.Len() > 0 {
					t.Errorf("%s for a client that has %s: got %d with %d bytes, want %d", path, known, w.Code, w.Body.Len(), want)
				}
			}
		}
		if len(tags) != 2 {
			t.Errorf("%s: got the tags and encodings %v, want a tag for each encoding", path, tags)
		}
	}
	if plain, forwarded := get("/docs").Body.String(), get("/docs", "X-Forwarded-Proto: https").Body.String(); plain != forwarded {
		t.Errorf("/docs with X-Forwarded-Proto of any client: got %s, want %s", forwarded, plain)
	}
	for path, want := range map[string]int{"/docs": 200, "/docs/LICENSE": 200, "/docs/none.js": 404, "/docs/swagger-ui/LICENSE": 404, "/docs/": 404} {
		if w := get(path); w.Code != want {
			t.Errorf("GET %s: got %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// The files of Swagger UI have the checksums of README.md.
func TestLibraryIsUnmodified(t *testing.T) {
	readme, err := docs.ReadFile("docs/swagger-ui/README.md")
	check.Must(t, err)
	entries, err := docs.ReadDir("docs/swagger-ui")
	check.Must(t, err)
	for _, entry := range entries {
		text, err := docs.ReadFile("docs/swagger-ui/" + entry.Name())
		check.Must(t, err)
		if line := fmt.Sprintf("| %s | %x |\n", entry.Name(), sha256.Sum256(text)); entry.Name() != "README.md" && !strings.Contains(string(readme), line) {
			t.Errorf("README.md of the library: got no line %s", line)
		}
	}
}
