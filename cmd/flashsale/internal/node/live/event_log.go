package live

import (
	"context"
	"sync"
	"time"
)

// An eventLog holds the history of a node for operators: its rates of the last ten minutes
// and a log of events. It takes 40 kB of memory. It is lost when the node restarts.
type eventLog struct {
	observed // used by observeOnce only

	mu      sync.Mutex
	point   ratePoint // the latest point
	rates   series[ratePoint]
	entries []logEntry         // oldest first
	lastID  int64              // ID of the latest entry
	paid    map[string]int64   // paid units by SKU, at the last query
	p99     map[string]float64 // ms, by SKU, for the orders of the last second
}

// A ratePoint holds the rates of this node in one second or in five. The rates of five
// seconds are averages, except P99 and Queued, which are maxima.
type ratePoint struct {
	At int64 `json:"at"` // ms since 1970, by the node's clock
	rates
}

// observeOnce adds the rates and events since the previous call, one second ago.
func (l *Live) observeOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*storeTimeout)
	defer cancel()
	e, c := &l.events, l.cfg.Service.Controller()
	skus, overview := l.watched()
	e.add(l.measureRates(), l.takeBySale(l.withListed(skus)))
	found := e.storeEvents(l.cfg.Missing(ctx))
	found = append(found, e.saleEvents(c.Catalog().All(), c.KeptSKUs(), c.Catalog().Now())...)
	if e.count++; e.count%5 == 1 { // if the query fails, storeEvents reports MySQL
		if claims, err := l.cfg.Store.RecentClaims(ctx, c.Catalog().Now().Add(-15*time.Second)); err == nil {
			found = append(found, e.refundEvents(claims)...)
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
		// The query reads all unpaid orders. It may run for 5 % of the time.
		e.paidDue = began.Add(max(3*l.cfg.Every, 20*time.Since(began)))
	}
}

// measureRates returns the rates of this node since the previous call.
func (l *Live) measureRates() ratePoint {
	o, now, c := &l.events.observed, time.Now(), l.cfg.Service.Controller()
	durable := c.Counters().Drained.Load() + c.Counters().DirectPlaced.Load()
	seconds := now.Sub(o.at).Seconds()
	r := l.responses.take(seconds)
	r.Durable, r.Queued = float64(durable-o.durable)/seconds, c.Stats().QueuedOrders
	o.at, o.durable = now, durable
	return ratePoint{now.UnixMilli(), r}
}

// add adds the point of one second and the p99 of each sale.
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

// last returns the latest point. It is zero before the first one.
func (e *eventLog) last() ratePoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.point
}

// latest sets the events of an overview to the latest entries. It returns the paid units
// and the p99 of each sale.
func (e *eventLog) latest(v *overview) (paid map[string]int64, p99 map[string]float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.Events = append([]logEntry{}, e.entries[max(0, len(e.entries)-repeated):]...)
	return e.paid, e.p99
}

// opening returns the first events of an overview's stream: the rates and the log.
func (e *eventLog) opening(began time.Time) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	history := map[string]any{"began": began.UTC().Truncate(time.Millisecond), "points": e.rates.all()}
	return append(event("history", history), event("events", map[string]any{"events": append([]logEntry{}, e.entries...)})...)
}
