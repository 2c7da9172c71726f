package ratelimit

import (
	"net/http"
	"strconv"
	"time"
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
// The first two are draft-ietf-httpapi-ratelimit-headers-10: the burst and the
// seconds in which it refills; the tokens left and the seconds for which that
// is so. All seconds are whole, rounded up and never 0: a client that comes
// back when told so is not too early. Retry-After (RFC 9110) and t stand only
// in a refusal, and in none that is for ever. t is left out where tokens
// remain, because a client that spreads them over the time to the next token
// would go far beyond the rate. A result without a bucket has no headers.
func SetHeaders(h http.Header, r Result) {
	if r.Bucket == "" {
		return
	}
	// Names are checked to need no escaping (validName).
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
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 1)
}
