package ratelimit

import (
	"sync"
	"time"

	"flashsale/ratelimit/internal/recent"
)

// slotRemember is how long a refusal is remembered on a Redis Cluster, at most. A
// bucket there may refuse because another request's tokens are on their way back
// (slots.go), and that is over in a moment.
const slotRemember = 100 * time.Millisecond

// refusals remembers which buckets have refused, and until when. A bucket that lacks
// tokens now lacks them until enough have come in, whoever asks. So whoever asks again
// too early is refused without asking Redis: an abuser costs Redis nothing.
type refusals struct {
	mu    sync.Mutex
	known recent.Map[Bucket, refusal]
}

type refusal struct {
	cost    int64
	timeout time.Duration
	// until is the retry time, counted from before the question so that it is never
	// too late: nobody is refused from memory whom Redis would allow.
	until time.Time
	// retry and reset are counted from after the answer, so that a caller who
	// comes back when told so is never too early.
	retry, reset time.Time
}

// again tells whether one of a request's buckets is known to refuse it: of
// those, the one that will for longest.
func (f *refusals) again(a ask, now time.Time) (Result, bool) {
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
			continue // this one asks for less
		}
		// Who asks for more waits for more.
		retry := r.retry.Sub(now) + b.brings(a.cost-r.cost)
		if retry > longest.RetryAfter {
			longest = Result{Bucket: b.Name, Limit: b.Limit, RetryAfter: retry, Reset: r.reset.Sub(now), Remembered: true}
		}
	}
	return longest, longest.Remembered
}

// forget drops the refusals of buckets that somebody has filled.
func (f *refusals) forget(buckets []Bucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range buckets {
		f.known.Remove(b)
	}
}

// learn keeps a refusal that was asked for and answered at these times, of a bucket
// with nothing left: what is left in it, others may take, and nobody here would
// know.
func (f *refusals) learn(a ask, got answer, asked, answered time.Time, most time.Duration) {
	if got.left > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.Put(a.buckets[got.bucket], refusal{
		cost: a.cost, timeout: a.timeout, until: asked.Add(min(got.wait, most)),
		retry: answered.Add(got.wait), reset: answered.Add(got.reset),
	})
}
