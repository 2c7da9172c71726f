package live

import (
	"context"
	"sync"
	"time"
)

// A journal is what this node remembers for operators: ten minutes of its own
// rates, and a log. It is kept all the time, in memory, 40 kB of it: a restart
// loses it.
type journal struct {
	observer // the loop's own

	mu      sync.Mutex
	point   ratePoint // of the last look
	rates   series[ratePoint]
	entries []logEntry         // the oldest first
	entry   int64              // id of the last
	paid    map[string]int64   // units of each sale, as last read
	p99     map[string]float64 // of the orders of each sale in the last second, ms
}

// A ratePoint is what this node did in a second. In five it is the average, but of
// p99 and queue the worst.
type ratePoint struct {
	At int64 `json:"at"` // ms since 1970, by the node's clock
	rates
}

// observeOnce takes note of what has happened since the last look, once a second.
func (l *Live) observeOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*storeTimeout)
	defer cancel()
	j, keepers := &l.journal, l.cfg.Service.Keepers()
	skus, overview := l.watched()
	j.add(l.lookAtRates(), l.takeBySale(l.withListed(skus)))
	found := j.lookAtStores(l.cfg.Missing(ctx))
	found = append(found, j.lookAtSales(keepers.Catalog().All(), keepers.Kept())...)
	if j.looks++; j.looks%5 == 1 { // an error shows as a store that is away
		if claims, err := l.cfg.Store.RecentClaims(ctx, keepers.Catalog().Now().Add(-15*time.Second)); err == nil {
			found = append(found, j.lookAtRefunds(claims)...)
		}
	}
	j.log(found)
	if overview && time.Now().After(j.paidDue) {
		began := time.Now()
		if paid, err := l.cfg.Store.PaidUnits(ctx); err == nil {
			j.mu.Lock()
			j.paid = paid
			j.mu.Unlock()
		}
		// Reading takes a twentieth of the time at most.
		j.paidDue = began.Add(max(3*l.cfg.Every, 20*time.Since(began)))
	}
}

// lookAtRates tells what this node did since the last look.
func (l *Live) lookAtRates() ratePoint {
	o, now, keepers := &l.journal.observer, time.Now(), l.cfg.Service.Keepers()
	durable := keepers.Counters().Drained.Load() + keepers.Counters().DirectPlaced.Load()
	seconds := now.Sub(o.then).Seconds()
	r := l.answers.take(seconds)
	r.Durable, r.Queued = float64(durable-o.durable)/seconds, keepers.Stats().Queued
	o.then, o.durable = now, durable
	return ratePoint{now.UnixMilli(), r}
}

// add adds the point of a second, with the p99 of each sale.
func (j *journal) add(p ratePoint, p99 map[string]float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.point, j.p99 = p, p99
	j.rates.add(p, func(five []ratePoint) ratePoint {
		all := ratePoint{At: five[step-1].At}
		for _, q := range five {
			all.add(&q.rates, 1./step)
			all.P99, all.Queued = max(all.P99, q.P99), max(all.Queued, q.Queued)
		}
		return all
	})
}

// last is the point of the last look, zero before the first.
func (j *journal) last() ratePoint {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.point
}

// latest adds the latest entries to an overview, and returns the paid units and the
// p99 of each sale.
func (j *journal) latest(v *overview) (paid map[string]int64, p99 map[string]float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v.Events = append([]logEntry{}, j.entries[max(0, len(j.entries)-lately):]...)
	return j.paid, j.p99
}

// opening is what a stream of the overview begins with: the rates and the log.
func (j *journal) opening(began time.Time) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	history := map[string]any{"began": began.UTC().Truncate(time.Millisecond), "points": j.rates.all()}
	return append(event("history", history), event("events", map[string]any{"events": append([]logEntry{}, j.entries...)})...)
}
