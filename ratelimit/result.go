package ratelimit

import (
	"time"

	"flashsale/ratelimit/limit"
)

// Result is the limiter's answer to one request.
type Result struct {
	Allowed bool
	// Bucket is the name of the bucket that decided. When refused, it is the bucket
	// that will refuse for longest; when allowed, the one with the fewest tokens
	// left. It is empty when no bucket was asked.
	Bucket string
	// Limit is that bucket's limit.
	Limit limit.Limit
	// Remaining is how many whole tokens that bucket has now.
	Remaining int64
	// RetryAfter is 0 when allowed. When refused, it is the time until that bucket
	// could allow the same cost, if nobody else takes from it.
	RetryAfter time.Duration
	// Reset is the time until that bucket is full again, if nobody else takes
	// from it.
	Reset time.Duration
	// Waited is how long Wait let the request wait for its turn.
	Waited time.Duration
	// Never tells that the cost is above the burst: no waiting helps.
	Never bool
	at    int64 // as in answer
	cost  int64 // that Allow took
	// Remembered tells that this node repeated a bucket's earlier refusal, without
	// asking Redis. Another bucket might have refused for longer.
	Remembered bool
}

// result turns the script's answer into the caller's.
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
