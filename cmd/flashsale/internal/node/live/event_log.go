package live

import (
	"context"
	"sync"
	"time"
)

// An eventLog holds what a node remembers for operators: its own rates of ten minutes,
// and a log of events. It takes 40 kB of memory, and a restart loses it.
type eventLog struct {
	lastLook // the loop's own

	mu      sync.Mutex
	point   ratePoint // of the last look
	rates   series[ratePoint]
	entries []logEntry         // the oldest first
	lastID  int64              // of the entries
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
	e, keepers := &l.events, l.cfg.Service.Keepers()
	skus, overview := l.watched()
	e.add(l.lookAtRates(), l.takeBySale(l.withListed(skus)))
	found := e.lookAtStores(l.cfg.Missing(ctx))
	found = append(found, e.lookAtSales(keepers.Catalog().All(), keepers.Kept())...)
	if e.looks++; e.looks%5 == 1 { // an error shows as a store that is away
		if claims, err := l.cfg.Store.RecentClaims(ctx, keepers.Catalog().Now().Add(-15*time.Second)); err == nil {
			found = append(found, e.lookAtRefunds(claims)...)
		}
	}
	e.log(found)
	if overview && time.Now().After(e.paidDue) {
		began := time.Now()
		if paid, err := l.cfg.Store.PaidUnits(ctx); err == nil {
			e.mu.Lock()
			e.paid = paid
			e.mu.Unlock()
		}
		// Reading takes a twentieth of the time at most.
		e.paidDue = began.Add(max(3*l.cfg.Every, 20*time.Since(began)))
	}
}

// lookAtRates tells what this node did since the last look.
func (l *Live) lookAtRates() ratePoint {
	o, now, keepers := &l.events.lastLook, time.Now(), l.cfg.Service.Keepers()
	durable := keepers.Counters().Drained.Load() + keepers.Counters().DirectPlaced.Load()
	seconds := now.Sub(o.then).Seconds()
	r := l.responses.take(seconds)
	r.Durable, r.Queued = float64(durable-o.durable)/seconds, keepers.Stats().Queued
	o.then, o.durable = now, durable
	return ratePoint{now.UnixMilli(), r}
}

// add adds the point of a second, with the p99 of each sale.
func (e *eventLog) add(p ratePoint, p99 map[string]float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.point, e.p99 = p, p99
	e.rates.add(p, func(five []ratePoint) ratePoint {
		all := ratePoint{At: five[step-1].At}
		for _, q := range five {
			all.add(&q.rates, 1./step)
			all.P99, all.Queued = max(all.P99, q.P99), max(all.Queued, q.Queued)
		}
		return all
	})
}

// last is the point of the last look, zero before the first.
func (e *eventLog) last() ratePoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.point
}

// latest adds the latest entries to an overview, and returns the paid units and the
// p99 of each sale.
func (e *eventLog) latest(v *overview) (paid map[string]int64, p99 map[string]float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.Events = append([]logEntry{}, e.entries[max(0, len(e.entries)-lately):]...)
	return e.paid, e.p99
}

// opening is what a stream of the overview begins with: the rates and the log.
func (e *eventLog) opening(began time.Time) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	history := map[string]any{"began": began.UTC().Truncate(time.Millisecond), "points": e.rates.all()}
	return append(event("history", history), event("events", map[string]any{"events": append([]logEntry{}, e.entries...)})...)
}
