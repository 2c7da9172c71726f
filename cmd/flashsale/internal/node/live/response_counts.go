package live

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds of the times that requests take, in seconds, by which a node counts them:
// 0.1 ms to 2.4 s, each two and a half of the one before.
var Bounds = []float64{
	.0001, .00025, .000625, .0015625, .00390625, .009765625,
	.0244140625, .06103515625, .152587890625, .3814697265625, .95367431640625, 2.384185791015625,
}

// times counts requests by the bound that they do not exceed, and last those that
// exceed all.
type times [13]atomic.Uint64

func (t *times) add(took time.Duration) {
	i, _ := slices.BinarySearch(Bounds, took.Seconds())
	t[i].Add(1)
}

// take takes out what was counted: to each bound those of at most that.
func (t *times) take() []uint64 {
	took, sum := make([]uint64, len(t)), uint64(0)
	for i := range t {
		sum += t[i].Swap(0)
		took[i] = sum
	}
	return took
}

// responseCounts counts requests to place an order by what became of them.
type responseCounts struct {
	accepted atomic.Int64 // 201 and 202
	refused  atomic.Int64 // 409: sold out, the buyer's limit, not open, closed
	limited  atomic.Int64 // 429
	failed   atomic.Int64 // 5xx
	times
}

// Answered counts a request to place an order of a sale.
func (l *Live) Answered(sku string, status int, took time.Duration) {
	switch {
	case status == 201 || status == 202:
		l.responses.accepted.Add(1)
	case status == 409:
		l.responses.refused.Add(1)
	case status == 429:
		l.responses.limited.Add(1)
	case status >= 500:
		l.responses.failed.Add(1)
	}
	l.responses.add(took)
	if sale := (*l.bySale.Load())[sku]; sale != nil {
		sale.add(took)
	}
}

// take takes out what was counted in so many seconds.
func (a *responseCounts) take(seconds float64) rates {
	per := func(n *atomic.Int64) float64 { return float64(n.Swap(0)) / seconds }
	r := rates{Accepted: per(&a.accepted), Refused: per(&a.refused), Limited: per(&a.limited), Failed: per(&a.failed), took: a.times.take()}
	r.P99 = quantile(0.99, Bounds, r.took)
	return r
}

// takeBySale takes out the p99 of each of these sales, ms, and goes on with them alone.
func (l *Live) takeBySale(skus []string) map[string]float64 {
	was, next, p99 := *l.bySale.Load(), make(map[string]*times, len(skus)), make(map[string]float64, len(skus))
	for _, sku := range skus {
		next[sku] = cmp.Or(was[sku], &times{})
		p99[sku] = quantile(0.99, Bounds, next[sku].take())
	}
	l.bySale.Store(&next)
	return p99
}
