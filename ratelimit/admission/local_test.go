package admission

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/internal/recent"
	"flashsale/ratelimit/limit"
)

// The limiter of one node makes the same decisions as the script, in every part of the
// answer: for any limits, buckets shared between requests, and steps of the clock.
// Package ratelimit compares the script with a model. The broken twin counts in whole
// seconds.
func TestLocalDecidesLikeTheScript(t *testing.T) {
	server, client := servertest.StartWithFrozenClock(t)
	agrees := func(t *rapid.T, grain time.Duration) error {
		server.FlushAll()
		now := epoch
		limiter := ratelimit.New(client, ratelimit.Config{Timeout: time.Hour, Remember: -1})
		l := &local{since: epoch.Truncate(grain)}
		pool := rapid.SliceOfN(rapid.Custom(drawLimit), 1, 3).Draw(t, "limits")
		pool = append(pool, pool[0]) // the same limit twice, so two buckets may refuse for the same time
		for n := range rapid.IntRange(1, 40).Draw(t, "requests") {
			now = now.Add(drawPause(t, pool))
			server.SetTime(now)
			cost, buckets := drawRequest(t, pool)
			want, err := limiter.Allow(context.Background(), cost, buckets...)
			check.Must(t, err)
			// All fields but at, which other packages do not see.
			want = ratelimit.Result{Allowed: want.Allowed, Bucket: want.Bucket, Limit: want.Limit,
				Remaining: want.Remaining, RetryAfter: want.RetryAfter, Reset: want.Reset}
			if got := l.take(int64(cost), buckets, now.Truncate(grain)); got != want {
				return fmt.Errorf("request at %v, number %d of %d from %v: got %+v, want %+v as from the script", now.Sub(epoch), n, cost, buckets, got, want)
			}
		}
		return nil
	}
	rapid.Check(t, func(rt *rapid.T) {
		check.Must(rt, agrees(rt, time.Microsecond))
	})
	for seed := range 500 {
		if err := rapid.Custom(func(rt *rapid.T) error { return agrees(rt, time.Second) }).Example(seed); err != nil {
			t.Logf("the twin fails: %v", err)
			return
		}
	}
	t.Error("twin that counts in whole seconds: it passes, so the check proves nothing")
}

func drawLimit(t *rapid.T) limit.Limit {
	per := rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Millisecond, 7 * time.Millisecond, time.Second, 7 * time.Second, time.Hour,
	}).Draw(t, "per")
	l, err := limit.New(rapid.Int64Range(1, 1000).Draw(t, "tokens"), per, rapid.Int64Range(1, 20).Draw(t, "burst"))
	check.Must(t, err)
	return l
}

// drawPause prefers the pauses at which faults show: about 0, about the refill time of one
// token, and about the refill time of the whole bucket.
func drawPause(t *rapid.T, pool []limit.Limit) time.Duration {
	l := rapid.SampledFrom(pool).Draw(t, "limit to wait for")
	full := l.Window().Microseconds()
	near := func(moment int64) *rapid.Generator[int64] { return rapid.Int64Range(moment-1, moment+1) }
	pause := rapid.OneOf(near(0), near(full/l.Burst()), near(full), rapid.Int64Range(0, 2*full)).Draw(t, "pause")
	return time.Duration(max(pause, 0)) * time.Microsecond
}

// drawRequest draws a request with one bucket for each of the first limits, and one
// bucket that is off.
func drawRequest(t *rapid.T, pool []limit.Limit) (cost int, buckets []ratelimit.Bucket) {
	maxCost := int64(1 << 30)
	for i, l := range pool[:rapid.IntRange(1, len(pool)).Draw(t, "buckets")] {
		buckets = append(buckets, ratelimit.Bucket{Name: fmt.Sprintf("limit%d", i), ID: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), Limit: l})
		maxCost = min(maxCost, l.Burst()) // a cost above the burst is refused without a count
	}
	off := rapid.IntRange(0, len(buckets)).Draw(t, "off")
	buckets = append(buckets[:off:off], append([]ratelimit.Bucket{{Limit: limit.Off}}, buckets[off:]...)...)
	return int(rapid.Int64Range(1, maxCost).Draw(t, "cost")), buckets
}

// The number of buckets in memory is bounded, and buckets in use are kept. Refusals have
// the same bound, because they use package recent as well.
func TestMemoryIsBounded(t *testing.T) {
	l := &local{since: epoch}
	one := parse(t, "1/h:1")
	abuser := []ratelimit.Bucket{{Name: "ip", ID: "192.0.2.1", Limit: one}}
	passed := 0
	for n := range 5 * recent.Half {
		l.take(1, []ratelimit.Bucket{forBuyer(fmt.Sprint(n), one)}, epoch)
		if n%1000 == 0 && l.take(1, abuser, epoch).Allowed {
			passed++
		}
	}
	if n := l.levels.Len(); n > 2*recent.Half || n < recent.Half {
		t.Errorf("local limiter: got %d buckets kept, want %d to %d", n, recent.Half, 2*recent.Half)
	}
	if passed != 1 {
		t.Errorf("bucket that stays in use while others are forgotten: got %d requests allowed, want 1", passed)
	}
}
