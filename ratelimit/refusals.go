package ratelimit

import (
	"sync"
	"time"

	"flashsale/ratelimit/internal/recent"
)

// slotRemember bounds the time for which a refusal is remembered on a Redis Cluster.
// There, a bucket may refuse because tokens of another request have not been given back
// yet (slots.go).
const slotRemember = 100 * time.Millisecond

// refusals remembers which buckets have refused, and until when. A bucket without tokens
// refuses every request until tokens are refilled. The node refuses earlier requests
// without asking Redis, so an abusive client costs Redis nothing.
type refusals struct {
	mu    sync.Mutex
	known recent.Map[Bucket, refusal]
}

type refusal struct {
	cost    int64
	timeout time.Duration
	// until is the end of the memory, counted from before the call. A request that Redis
	// would allow is therefore never refused from memory.
	until time.Time
	// retry and reset are counted from after the answer. A client that returns at that
	// time is therefore not too early.
	retry, reset time.Time
}

// find returns the longest remembered refusal of the request, and reports whether there
// is one.
func (f *refusals) find(a ask, now time.Time) (Result, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var longest Result
	if f.known.Len() == 0 {
		return longest, false
	}
	for _, b := range a.buckets {
		r, known := f.known.Get(b)
		if !known {
			continue
		}
		if !now.Before(r.until) {
			f.known.Remove(b)
			continue
		}
		if a.cost < r.cost || a.timeout > r.timeout {
			continue // this request costs less or waits longer
		}
		// A larger cost has to wait for more tokens.
		retry := r.retry.Sub(now) + b.refillTime(a.cost-r.cost)
		if retry > longest.RetryAfter {
			longest = Result{Bucket: b.Name, Limit: b.Limit, RetryAfter: retry, Reset: r.reset.Sub(now), Remembered: true}
		}
	}
	return longest, longest.Remembered
}

// forget drops the refusals of buckets that were filled.
func (f *refusals) forget(buckets []Bucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range buckets {
		f.known.Remove(b)
	}
}

// learn keeps the refusal of an empty bucket. asked and answered are the times before and
// after the call. A bucket with tokens left is not kept, because other requests may take
// them, and the time to retry would change.
func (f *refusals) learn(a ask, got answer, asked, answered time.Time, limit time.Duration) {
	if got.left > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.Put(a.buckets[got.bucket], refusal{
		cost: a.cost, timeout: a.timeout, until: asked.Add(min(got.wait, limit)),
		retry: answered.Add(got.wait), reset: answered.Add(got.reset),
	})
}
