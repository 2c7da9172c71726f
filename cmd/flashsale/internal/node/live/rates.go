package live

// rates holds the rates per second of POST /v1/orders, by outcome.
type rates struct {
	Accepted float64 `json:"accepted"`
	Refused  float64 `json:"refused"`
	Limited  float64 `json:"limited"`
	Failed   float64 `json:"failed"`
	Durable  float64 `json:"durable"`
	P99      float64 `json:"p99_ms"` // time to place an order; 0 without orders
	Queued   int64   `json:"queued"` // queued orders, not a rate

	took []uint64 // as times.take returns them
}

// sumRates returns the rates of all nodes together.
func sumRates(nodes []nodeStats) (all rates) {
	all.took = make([]uint64, len(times{}))
	for _, n := range nodes {
		all.add(&n.Point.rates, 1)
		all.Queued += n.Point.Queued
		if len(n.Took) == len(all.took) { // a node of another version may have other buckets
			for i := range n.Took {
				all.took[i] += n.Took[i]
			}
		}
	}
	all.P99 = quantile(0.99, Bounds, all.took)
	return all
}

// add adds the rates of other, multiplied by part. It does not change P99 and Queued.
func (r *rates) add(other *rates, part float64) {
	r.Accepted += part * other.Accepted
	r.Refused += part * other.Refused
	r.Limited += part * other.Limited
	r.Failed += part * other.Failed
	r.Durable += part * other.Durable
}

// quantile estimates a quantile in ms by linear interpolation within a bucket. took holds
// cumulative counts by bounds in seconds. Beyond the last bound, the result is that bound.
func quantile(q float64, bounds []float64, took []uint64) float64 {
	if len(took) == 0 || len(took) != len(bounds)+1 || took[len(took)-1] == 0 {
		return 0
	}
	rank := q * float64(took[len(took)-1])
	var below, lower float64
	for i, upper := range bounds {
		if n := float64(took[i]); n >= rank {
			return 1000 * (lower + (upper-lower)*(rank-below)/(n-below))
		}
		below, lower = float64(took[i]), upper
	}
	return 1000 * lower
}
