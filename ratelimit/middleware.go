package ratelimit

import (
	"encoding/json"
	"errors"
	"net/http"
)

// Middleware lets a request pass if all of its buckets have as many tokens as it
// costs, and writes SetHeaders' headers, whatever the answer. A request that
// doesn't pass ends here, with what refuse writes: it gets a *LimitedError, an
// error that wraps ErrUnavailable (Redis away, policy Closed) or ErrBadRequest, or
// the request context's own. A nil refuse is Refuse. Package ginlimit has the same
// for Gin.
func Middleware(l *Limiter, ask func(*http.Request) (cost int, buckets []Bucket), refuse func(http.ResponseWriter, *http.Request, error)) func(http.Handler) http.Handler {
	if refuse == nil {
		refuse = Refuse
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cost, buckets := ask(r)
			result, err := l.Admit(r.Context(), cost, buckets...)
			SetHeaders(w.Header(), result)
			if err != nil {
				refuse(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Refuse writes a minimal application/problem+json (RFC 9457) for an error of
// Admit's: 429 rate_limited, 503 unavailable, 400 invalid_request.
func Refuse(w http.ResponseWriter, _ *http.Request, err error) {
	var limited *LimitedError
	status, code := http.StatusServiceUnavailable, "unavailable"
	switch {
	case errors.As(err, &limited):
		status, code = http.StatusTooManyRequests, "rate_limited"
	case errors.Is(err, ErrBadRequest):
		status, code = http.StatusBadRequest, "invalid_request"
	default:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // a client that has gone
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(status), status, code})
}
