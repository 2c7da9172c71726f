package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"flashsale/ratelimit"
)

// maxInteger is the largest Integer of HTTP's structured fields (RFC 9651).
const maxInteger = 999_999_999_999_999

// The field names are spelled as net/http spells them. For any other spelling, each Set
// would build the name again.
const (
	policyField = "Ratelimit-Policy"
	stateField  = "Ratelimit"
)

// SetHeaders writes a result for the client:
//
//	RateLimit-Policy: "buyer";q=10;w=2
//	RateLimit: "buyer";r=0;t=1
//	Retry-After: 1
//
// The first two fields follow draft-ietf-httpapi-ratelimit-headers-10. q is the burst, w
// the time in which an empty bucket is refilled, r the number of tokens left, and t the
// time after which the same cost could pass. Times are whole seconds, rounded up and at
// least 1, so a client that returns then is not too early.
//
// Only a refusal has t and Retry-After (RFC 9110), because a client that spread the
// tokens left over t would exceed the rate. If the request can never pass (Result.Never),
// only RateLimit-Policy is set. A result without a bucket sets no fields.
func SetHeaders(h http.Header, r ratelimit.Result) {
	if r.Bucket == "" {
		return
	}
	// The name needs no escaping: see ratelimit.Bucket.
	policy := append(make([]byte, 0, 48), '"')
	policy = append(append(policy, r.Bucket...), '"')
	state := append(make([]byte, 0, 48), policy...)

	policy = number(append(policy, ";q="...), r.Limit.Burst())
	policy = number(append(policy, ";w="...), seconds(r.Limit.Window()))
	h.Set(policyField, string(policy))
	if r.Never {
		return
	}
	state = number(append(state, ";r="...), r.Remaining)
	if !r.Allowed {
		wait := seconds(r.RetryAfter)
		state = number(append(state, ";t="...), wait)
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
	}
	h.Set(stateField, string(state))
}

func number(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(n, maxInteger), 10)
}

// seconds returns d in whole seconds, rounded up and at least 1.
func seconds(d time.Duration) int64 { return int64(max(d-1, 0)/time.Second) + 1 }
