package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"flashsale/ratelimit"
)

// maxInteger is the largest Integer of HTTP's structured fields (RFC 9651).
const maxInteger = 999_999_999_999_999

// The draft's field names as net/http spells them; in any other spelling each
// Set would have to make the name anew.
const (
	policyField = "Ratelimit-Policy"
	stateField  = "Ratelimit"
)

// SetHeaders writes what a result tells the client:
//
//	RateLimit-Policy: "buyer";q=10;w=2
//	RateLimit: "buyer";r=0;t=1
//	Retry-After: 1
//
// The first two are of draft-ietf-httpapi-ratelimit-headers-10. q is the burst, w the
// seconds in which an empty bucket refills, r the tokens left, t the seconds until the
// same cost could pass. All seconds are whole, rounded up and at least 1: a client that
// comes back then is not too early. Only a refusal has t and Retry-After (RFC 9110): a
// client that spread the tokens left over t would go far beyond the rate. A refusal for
// ever (Result.Never) has RateLimit-Policy alone. A result without a bucket has no
// headers.
func SetHeaders(h http.Header, r ratelimit.Result) {
	if r.Bucket == "" {
		return
	}
	// Names are checked to need no escaping (ratelimit.Bucket).
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

// seconds rounds up to whole seconds, at least 1.
func seconds(d time.Duration) int64 { return int64(max(d-1, 0)/time.Second) + 1 }
