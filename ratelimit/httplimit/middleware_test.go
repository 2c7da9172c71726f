package httplimit

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/limit"
)

func TestSetHeaders(t *testing.T) {
	l := parse(t, "5/s:10")
	for name, c := range map[string]struct {
		result                    ratelimit.Result
		policy, state, retryAfter string
	}{
		"allowed": {ratelimit.Result{Allowed: true, Bucket: "buyer", Limit: l, Remaining: 9},
			`"buyer";q=10;w=2`, `"buyer";r=9`, ""},
		"refused": {ratelimit.Result{Bucket: "buyer", Limit: l, RetryAfter: 200 * time.Millisecond},
			`"buyer";q=10;w=2`, `"buyer";r=0;t=1`, "1"},
		"a whole second": {ratelimit.Result{Bucket: "ip", Limit: l, Remaining: 2, RetryAfter: time.Second},
			`"ip";q=10;w=2`, `"ip";r=2;t=1`, "1"},
		"a little more": {ratelimit.Result{Bucket: "ip", Limit: l, RetryAfter: time.Second + time.Microsecond},
			`"ip";q=10;w=2`, `"ip";r=0;t=2`, "2"},
		"no wait at all": {ratelimit.Result{Bucket: "ip", Limit: l}, `"ip";q=10;w=2`, `"ip";r=0;t=1`, "1"},
		"a short window": {ratelimit.Result{Allowed: true, Bucket: "ip", Limit: parse(t, "100/ms:1")},
			`"ip";q=1;w=1`, `"ip";r=0`, ""},
		"never":    {ratelimit.Result{Bucket: "sku", Limit: l, Never: true}, `"sku";q=10;w=2`, "", ""},
		"no limit": {ratelimit.Result{Allowed: true}, "", "", ""},
	} {
		h := http.Header{}
		SetHeaders(h, c.result)
		if h.Get("RateLimit-Policy") != c.policy || h.Get("RateLimit") != c.state || h.Get("Retry-After") != c.retryAfter {
			t.Errorf("headers of %s: got %v, want %q, %q, %q", name, h, c.policy, c.state, c.retryAfter)
		}
	}
}

// A request after Retry-After is allowed. The broken twin rounds down, and is refused
// again.
func TestRetryAfterIsNeverTooEarly(t *testing.T) {
	tooEarly := func(round func(time.Duration) int64) bool {
		server, client := servertest.StartWithFrozenClock(t)
		l := ratelimit.New(client, ratelimit.Config{Timeout: time.Hour, Remember: -1})
		for _, text := range []string{"5/s:1", "0.7/s:1", "3/s:1", "1/7s:1", "100/ms:1"} {
			allow := func() ratelimit.Result {
				r, err := l.Allow(t.Context(), 1, forBuyer("b1", parse(t, text)))
				check.Must(t, err)
				return r
			}
			allow()
			refused := allow()
			server.SetTime(epoch.Add(time.Duration(round(refused.RetryAfter)) * time.Second))
			retried := allow()
			server.FlushAll()
			server.SetTime(epoch)
			if !retried.Allowed {
				return true
			}
		}
		return false
	}
	if tooEarly(seconds) {
		t.Error("request after Retry-After: got a refusal, want it allowed")
	}
	if !tooEarly(func(d time.Duration) int64 { return int64(d / time.Second) }) {
		t.Error("twin that rounds down: got its request allowed, so the check proves nothing")
	}
}

func TestMiddleware(t *testing.T) {
	server, client := servertest.StartWithFrozenClock(t)
	control := admission.New(ratelimit.New(client, ratelimit.Config{Timeout: time.Hour}), nil).With(admission.Rules{WhenAway: admission.Closed})
	five := parse(t, "5/s:2")
	serve := func(refuse func(http.ResponseWriter, *http.Request, error)) func(buyer string) *httptest.ResponseRecorder {
		handler := Middleware(control, func(r *http.Request) (int, []ratelimit.Bucket) {
			return 1, []ratelimit.Bucket{forBuyer(r.Header.Get("X-Buyer"), five), IP(r.RemoteAddr, limit.Off)}
		}, refuse)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
		return func(buyer string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header.Set("X-Buyer", buyer)
			handler.ServeHTTP(w, r)
			return w
		}
	}
	get := serve(nil)
	want := func(w *httptest.ResponseRecorder, status int, code, state, retryAfter string) {
		t.Helper()
		if w.Code != status || w.Header().Get("RateLimit") != state || w.Header().Get("Retry-After") != retryAfter {
			t.Errorf("answer of the middleware: got %d %v %s, want %d, RateLimit %q, Retry-After %q", w.Code, w.Header(), w.Body, status, state, retryAfter)
		}
		var problem struct {
			Status int
			Code   string
		}
		if code == "" {
			if w.Body.String() != "served" {
				t.Errorf("served request: got body %q, want served", w.Body)
			}
		} else if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Code != code || problem.Status != status ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("refused request: got problem %v %s, error %v, want code %s", w.Header(), w.Body, err, code)
		}
	}
	want(get("b1"), 200, "", `"buyer";r=1`, "")
	want(get("b1"), 200, "", `"buyer";r=0`, "")
	want(get("b1"), 429, "rate_limited", `"buyer";r=0;t=1`, "1")
	want(get("b2"), 200, "", `"buyer";r=1`, "")
	want(get(""), 400, "invalid_request", "", "")

	var refusal error
	custom := serve(func(w http.ResponseWriter, _ *http.Request, err error) {
		refusal = err
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "custom")
	})
	var limited *admission.LimitedError
	if w := custom("b1"); w.Code != http.StatusTeapot || w.Body.String() != "custom" || !errors.As(refusal, &limited) {
		t.Errorf("custom refusal: got %d %s, error %v, want the answer of refuse", w.Code, w.Body, refusal)
	}
	server.Close()
	want(get("b2"), 503, "unavailable", "", "1")
}
