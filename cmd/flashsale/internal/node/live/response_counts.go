package live

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds, in seconds, of the buckets that count response times: 0.1
// ms to 2.4 s, each 2.5 times the previous one.
var Bounds = []float64{
	.0001, .00025, .000625, .0015625, .00390625, .009765625,
	.0244140625, .06103515625, .152587890625, .3814697265625, .95367431640625, 2.384185791015625,
}

// times counts requests by the lowest of Bounds that they do not exceed. The last element
// counts the requests that exceed all bounds.
type times [13]atomic.Uint64

func (t *times) add(took time.Duration) {
	i, _ := slices.BinarySearch(Bounds, took.Seconds())
	t[i].Add(1)
}

// take returns the cumulative counts by bound and resets them.
func (t *times) take() []uint64 {
	took, sum := make([]uint64, len(t)), uint64(0)
	for i := range t {
		sum += t[i].Swap(0)
		took[i] = sum
	}
	return took
}

// responseCounts counts the requests to place an order by their outcome.
type responseCounts struct {
	accepted atomic.Int64 // 201 and 202
	refused  atomic.Int64 // 409: sold out, buyer's limit, not open, closed
	limited  atomic.Int64 // 429
	failed   atomic.Int64 // 5xx
	times
}

// CountResponse counts a request to place an order by its status and duration.
func (l *Live) CountResponse(sku string, status int, took time.Duration) {
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

// take returns the rates over the given seconds and resets the counts.
func (a *responseCounts) take(seconds float64) rates {
	per := func(n *atomic.Int64) float64 { return float64(n.Swap(0)) / seconds }
	r := rates{Accepted: per(&a.accepted), Refused: per(&a.refused), Limited: per(&a.limited), Failed: per(&a.failed), took: a.times.take()}
	r.P99 = quantile(0.99, Bounds, r.took)
	return r
}

// takeBySale returns the p99 of each sale in ms and resets the counts. From then on only
// the orders of these SKUs are counted.
func (l *Live) takeBySale(skus []string) map[string]float64 {
	was, next, p99 := *l.bySale.Load(), make(map[string]*times, len(skus)), make(map[string]float64, len(skus))
	for _, sku := range skus {
		next[sku] = cmp.Or(was[sku], &times{})
		p99[sku] = quantile(0.99, Bounds, next[sku].take())
	}
	l.bySale.Store(&next)
	return p99
}
