package ratelimit

import (
	"fmt"
	"time"
)

// Result is the limiter's answer to one request.
type Result struct {
	Allowed bool
	// Bucket is the name of the bucket that decided: of those that refuse, the
	// one that will for longest; when allowed, the one with least left. It is
	// empty when no bucket was asked.
	Bucket string
	// Limit is that bucket's.
	Limit Limit
	// Remaining is the whole tokens now in it.
	Remaining int64
	// RetryAfter is, when refused, the time until that bucket could allow the
	// same cost, if nobody else takes from it; else 0.
	RetryAfter time.Duration
	// Reset is the time until that bucket is full again, if nobody else takes
	// from it.
	Reset time.Duration
	// Waited is how long Wait let the request wait for its turn.
	Waited time.Duration
	// Never tells that the cost is above the burst: waiting will not help.
	Never bool
	at    int64 // as in answer
	// Remembered tells that this node gave a bucket's earlier refusal again,
	// without asking Redis. Another bucket might have refused for longer.
	Remembered bool
}

// result turns the script's answer into the caller's.
func (a ask) result(got answer) Result {
	b := a.buckets[got.bucket]
	r := Result{Allowed: got.taken, Bucket: b.Name, Limit: b.Limit, Remaining: got.left, Reset: got.reset, at: got.at}
	if got.taken {
		r.Waited = got.wait
	} else {
		r.RetryAfter = got.wait
	}
	return r
}

// LimitedError says that a request was refused, and by what.
type LimitedError struct{ Result Result }

// Error is a sentence for logs; Result has its parts.
func (e *LimitedError) Error() string {
	if e.Result.Never {
		return fmt.Sprintf("ratelimit: the cost is above the burst of %s (%v)", e.Result.Bucket, e.Result.Limit)
	}
	return fmt.Sprintf("ratelimit: limited by %s (%v), next in %v", e.Result.Bucket, e.Result.Limit, e.Result.RetryAfter)
}
