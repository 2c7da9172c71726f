package live

import "slices"

// rates are how much a second, of the last second.
type rates struct {
	Accepted float64 `json:"accepted"`
	Refused  float64 `json:"refused"`
	Limited  float64 `json:"limited"`
	Failed   float64 `json:"failed"`
	Durable  float64 `json:"durable"`
	P99      float64 `json:"p99_ms"` // of placing an order; 0 where there was none
	Queued   int64   `json:"queued"` // orders that wait for the database now

	took []uint64
}

// figures are those of all nodes.
type figures struct {
	byNode map[string]rates
	all    rates
}

// peers are what the nodes told last, from which rates are worked out.
type peers struct {
	before map[string]nodeStats
	last   map[string]rates
}

// rates works out what happened since it was last called. A node that is new
// has none yet; one that has told nothing in between keeps its last ones.
func (p *peers) rates(nodes []nodeStats) figures {
	f := figures{byNode: map[string]rates{}}
	before := map[string]nodeStats{}
	var bounds []float64
	for _, now := range nodes {
		was, known := p.before[now.Node]
		before[now.Node] = now
		r := rates{}
		switch {
		case now.point != nil:
			r = now.point.rates
		case !known || now.Uptime < was.Uptime: // started, or started again
		case now.Uptime == was.Uptime:
			r = p.last[now.Node]
		default:
			r = between(&was, &now)
		}
		f.byNode[now.Node] = r
		f.all.add(&r, 1)
		f.all.Queued += r.Queued
		switch {
		case f.all.took == nil:
			f.all.took, bounds = slices.Clone(r.took), now.Bounds
		case len(r.took) == len(f.all.took): // else it is another version
			for i := range r.took {
				f.all.took[i] += r.took[i]
			}
		}
	}
	f.all.P99 = quantile(0.99, bounds, f.all.took)
	*p = peers{before, f.byNode}
	return f
}

// add adds a part of other rates. P99 and queue are left alone.
func (r *rates) add(other *rates, part float64) {
	r.Accepted += part * other.Accepted
	r.Refused += part * other.Refused
	r.Limited += part * other.Limited
	r.Failed += part * other.Failed
	r.Durable += part * other.Durable
}

func between(was, now *nodeStats) rates {
	seconds := (now.Uptime - was.Uptime).Seconds()
	per := func(was, now int64) float64 { return float64(now-was) / seconds }
	r := rates{
		Accepted: per(was.Accepted, now.Accepted), Refused: per(was.Refused, now.Refused),
		Limited: per(was.Limited, now.Limited), Failed: per(was.Failed, now.Failed), Durable: per(was.Durable, now.Durable),
		Queued: now.Queued,
	}
	if len(was.Took) == len(now.Took) {
		for i := range now.Took {
			r.took = append(r.took, now.Took[i]-was.Took[i])
		}
	}
	r.P99 = quantile(0.99, now.Bounds, r.took)
	return r
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
