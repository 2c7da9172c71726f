package live

// rates are how much a second, of the last second.
type rates struct {
	Accepted float64 `json:"accepted"`
	Refused  float64 `json:"refused"`
	Limited  float64 `json:"limited"`
	Failed   float64 `json:"failed"`
	Durable  float64 `json:"durable"`
	P99      float64 `json:"p99_ms"` // of placing an order; 0 where there was none
	Queued   int64   `json:"queued"` // orders that wait for the database now

	took []uint64 // as times.take has it
}

// together are the rates of all nodes.
func together(nodes []nodeStats) (all rates) {
	all.took = make([]uint64, len(times{}))
	for _, n := range nodes {
		all.add(&n.Point.rates, 1)
		all.Queued += n.Point.Queued
		if len(n.Took) == len(all.took) { // else it is another version
			for i := range n.Took {
				all.took[i] += n.Took[i]
			}
		}
	}
	all.P99 = quantile(0.99, Bounds, all.took)
	return all
}

// add adds a part of other rates. P99 and queue are left alone.
func (r *rates) add(other *rates, part float64) {
	r.Accepted += part * other.Accepted
	r.Refused += part * other.Refused
	r.Limited += part * other.Limited
	r.Failed += part * other.Failed
	r.Durable += part * other.Durable
}

// quantile of times counted in buckets, milliseconds: as much into the bucket
// as there are requests in it. Beyond the last bound it is that bound.
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
