package admission

import (
	"slices"
	"sync"
	"time"

	"flashsale/ratelimit"
	"flashsale/ratelimit/internal/recent"
)

// local decides like take.lua, in this process, while Redis is down. It uses the same
// arithmetic in the same units, and decides on one request at a time. The two counts are
// never carried over into each other.
type local struct {
	mu     sync.Mutex
	since  time.Time
	levels recent.Map[ratelimit.Bucket, level]
}

// A level records that a bucket was `debt` units short of full at `stamp`, in
// microseconds since local.since.
type level struct{ stamp, debt int64 }

// take decides on a request that the limiter would have sent to Redis.
func (l *local) take(cost int64, buckets []ratelimit.Bucket, now time.Time) (r ratelimit.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := now.Sub(l.since).Microseconds()
	on := slices.DeleteFunc(slices.Clone(buckets), func(b ratelimit.Bucket) bool { return b.Limit.IsOff() })
	for _, b := range on {
		debt := l.debt(b, at)
		token, rate := b.Limit.Units()
		if retry := until(debt+(cost-b.Limit.Burst())*token, rate); retry > r.RetryAfter {
			r = state(b, debt)
			r.RetryAfter = retry
		}
	}
	if r.RetryAfter > 0 {
		return r
	}
	for _, b := range on {
		token, _ := b.Limit.Units()
		debt := l.debt(b, at) + cost*token
		l.levels.Put(b, level{stamp: at, debt: debt})
		if s := state(b, debt); !r.Allowed || s.Remaining < r.Remaining {
			r = s
			r.Allowed = true
		}
	}
	return r
}

// debt returns the number of units that a bucket is short of full.
func (l *local) debt(b ratelimit.Bucket, at int64) int64 {
	was, known := l.levels.Get(b)
	_, rate := b.Limit.Units()
	// A division, because the product could overflow after a long time.
	if !known || at-was.stamp >= divideUp(was.debt, rate) {
		return 0
	}
	return was.debt - (at-was.stamp)*rate
}

// state returns the Result of bucket b, which is debt units short of full.
func state(b ratelimit.Bucket, debt int64) ratelimit.Result {
	token, rate := b.Limit.Units()
	return ratelimit.Result{Bucket: b.Name, Limit: b.Limit, Remaining: b.Limit.Burst() - divideUp(debt, token), Reset: until(debt, rate)}
}

// until returns the time in which the given units are refilled.
func until(units, rate int64) time.Duration {
	return time.Duration(divideUp(units, rate)) * time.Microsecond
}

func divideUp(n, by int64) int64 { return (n + by - 1) / by }
