package ratelimit

import (
	"time"

	"flashsale/ratelimit/limit"
)

// Result is the limiter's answer to one request.
type Result struct {
	Allowed bool
	// Bucket is the name of the deciding bucket. After a refusal, that is the bucket that
	// refuses for longest; otherwise, the bucket with the fewest tokens left. Bucket is
	// empty if no bucket was asked.
	Bucket string
	// Limit is the limit of that bucket.
	Limit limit.Limit
	// Remaining is the number of whole tokens in that bucket.
	Remaining int64
	// RetryAfter is the time after which that bucket could allow the same cost, if no
	// other request takes from it. It is 0 if the request was allowed.
	RetryAfter time.Duration
	// Reset is the time after which that bucket is full, if no request takes from it.
	Reset time.Duration
	// Waited is the time that Wait waited for the request's turn.
	Waited time.Duration
	// Never reports that the cost is above the burst, so that waiting does not help.
	Never bool
	at    int64 // see answer
	cost  int64 // tokens that Allow took
	// Remembered reports that this node repeated an earlier refusal without asking Redis.
	// Another bucket might refuse for longer.
	Remembered bool
}

// result converts the script's answer to a Result.
func (a ask) result(got answer) Result {
	b := a.buckets[got.bucket]
	r := Result{Allowed: got.taken, Bucket: b.Name, Limit: b.Limit, Remaining: got.left, Reset: got.reset, at: got.at, cost: a.cost}
	if got.taken {
		r.Waited = got.wait
	} else {
		r.RetryAfter = got.wait
	}
	return r
}
