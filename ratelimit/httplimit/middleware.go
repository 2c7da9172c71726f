// Package httplimit limits the requests to net/http handlers. It contains a middleware,
// functions that write a client's limit to the response headers, and functions that return
// the buckets for a client's IP address. Package admission makes the decisions. Package
// ginlimit has the middleware for Gin.
package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"

	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
)

// Middleware calls ask for the cost and the buckets of each request, and c.Admit with
// them. It writes the headers of SetHeaders in any case. If Admit returns an error,
// Middleware calls refuse with it instead of the handler. A nil refuse means Refuse.
func Middleware(c *admission.Control, ask func(*http.Request) (cost int, buckets []ratelimit.Bucket), refuse func(http.ResponseWriter, *http.Request, error)) func(http.Handler) http.Handler {
	if refuse == nil {
		refuse = Refuse
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cost, buckets := ask(r)
			result, err := c.Admit(r.Context(), cost, buckets...)
			SetHeaders(w.Header(), result)
			if err != nil {
				refuse(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Refuse writes a minimal application/problem+json (RFC 9457) for an error of Admit: 429
// rate_limited, 503 unavailable (with Retry-After: 1), or 400 invalid_request.
func Refuse(w http.ResponseWriter, _ *http.Request, err error) {
	_, limited := errors.AsType[*admission.LimitedError](err)
	status, code := http.StatusServiceUnavailable, "unavailable"
	switch {
	case limited:
		status, code = http.StatusTooManyRequests, "rate_limited"
	case errors.Is(err, ratelimit.ErrBadRequest):
		status, code = http.StatusBadRequest, "invalid_request"
	default:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // fails only if the client has gone
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(status), status, code})
}
