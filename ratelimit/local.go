package ratelimit

import (
	"sync"
	"time"
)

// local is take.lua in this process, for the time in which Redis is away: the
// same arithmetic in the same units, one request after the other. What it
// counted is not carried over when Redis is back, nor the other way round.
type local struct {
	mu     sync.Mutex
	since  time.Time
	levels recent[Bucket, level]
}

// level says that at `stamp` (microseconds since local.since) a bucket was
// `debt` units short of full.
type level struct{ stamp, debt int64 }

func newLocal(now time.Time) *local { return &local{since: now} }

func (l *local) take(a ask, now time.Time) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := now.Sub(l.since).Microseconds()
	debts := make([]int64, len(a.buckets))
	decides := answer{taken: true, bucket: -1}
	var turn int64
	for i, b := range a.buckets {
		debts[i] = l.debt(b, at)
		short := debts[i] + a.cost*b.Limit.unit - b.Limit.full()
		if short <= 0 {
			continue
		}
		wait := divideUp(short, b.Limit.rate)
		if wait <= a.timeout.Microseconds() {
			turn = max(turn, wait)
			continue
		}
		if retry := micros(wait) - a.timeout; decides.taken || retry > decides.wait {
			decides = answer{bucket: i, left: leftIn(b, debts[i]), wait: retry, reset: micros(divideUp(debts[i], b.Limit.rate))}
		}
	}
	if !decides.taken {
		return decides
	}
	decides.wait = micros(turn)
	for i, b := range a.buckets {
		debt := debts[i] + a.cost*b.Limit.unit
		l.levels.put(b, level{stamp: at, debt: debt})
		if left := leftIn(b, debt); decides.bucket < 0 || left < decides.left {
			decides.bucket, decides.left, decides.reset = i, left, micros(divideUp(debt, b.Limit.rate))
		}
	}
	return decides
}

// debt is what a bucket is short of full now.
func (l *local) debt(b Bucket, at int64) int64 {
	was, known := l.levels.get(b)
	// Divided and not multiplied: after a long time the product would not fit.
	if !known || at-was.stamp >= divideUp(was.debt, b.Limit.rate) {
		return 0
	}
	return was.debt - (at-was.stamp)*b.Limit.rate
}

func leftIn(b Bucket, debt int64) int64 { return max((b.Limit.full()-debt)/b.Limit.unit, 0) }

func divideUp(n, by int64) int64 { return (n + by - 1) / by }
