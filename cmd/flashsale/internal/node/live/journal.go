package live

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A journal is what this node remembers for operators: ten minutes of its own
// rates, and a log. It is kept all the time, in memory, 40 kB of it: a restart
// loses it.
type journal struct {
	observer // the loop's own

	mu      sync.Mutex
	counts  counts           // at the last look
	point   *ratePoint       // what came of it; nil before the first
	coarse  []ratePoint      // one for five of fine, before them
	fine    []ratePoint      // one a second, the oldest first
	entries []logEntry       // the oldest first
	entry   int64            // id of the last
	paid    map[string]int64 // units of each sale, as last read
}

// The bounds of the rates: two minutes by the second, eight in steps of five.
const (
	maxFine   = 120
	step      = 5
	maxCoarse = 96
)

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
	o, keepers, stats := &l.journal.observer, l.cfg.Service.Keepers(), l.counts()
	found := o.lookAtStores(l.cfg.Missing(ctx))
	found = append(found, o.lookAtSales(keepers.Catalog().All(), keepers.Kept())...)
	if o.looks%5 == 0 { // an error shows as a store that is away
		if claims, err := l.cfg.Store.RecentRefunds(ctx, keepers.Catalog().Now().Add(-15*time.Second)); err == nil {
			found = append(found, o.lookAtRefunds(claims)...)
		}
	}
	l.journal.log(found)
	o.looks++
	l.journal.add(stats)
	if _, overview := l.watched(); overview && time.Now().After(o.paidDue) {
		began := time.Now()
		if paid, err := l.cfg.Store.PaidUnits(ctx); err == nil {
			l.journal.mu.Lock()
			l.journal.paid = paid
			l.journal.mu.Unlock()
		}
		// Reading takes a twentieth of the time at most.
		o.paidDue = began.Add(max(3*time.Second, 20*time.Since(began)))
	}
}

// add adds the point of a second: what was counted since the last one.
func (j *journal) add(now counts) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := ratePoint{time.Now().UnixMilli(), between(&j.counts, &now)}
	j.counts, j.point = now, &p
	if j.fine = append(j.fine, p); len(j.fine) < maxFine+step {
		return
	}
	five := ratePoint{At: j.fine[step-1].At}
	for _, q := range j.fine[:step] {
		five.add(&q.rates, 1./step)
		five.P99, five.Queued = max(five.P99, q.P99), max(five.Queued, q.Queued)
	}
	j.coarse = append(j.coarse[max(0, len(j.coarse)-maxCoarse+1):], five)
	j.fine = slices.Clone(j.fine[step:])
}

// last is the point of the last look, nil before the first.
func (j *journal) last() *ratePoint {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.point
}

// latest adds the latest entries to an overview, and returns the paid units.
func (j *journal) latest(v *overview) map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	v.Events = append([]logEntry{}, j.entries[max(0, len(j.entries)-lately):]...)
	return j.paid
}

// opening is what a stream of the overview begins with: the rates and the log.
func (j *journal) opening(began time.Time) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	history := map[string]any{"began": began.UTC().Truncate(time.Millisecond), "points": append(append([]ratePoint{}, j.coarse...), j.fine...)}
	return append(event("history", history), event("events", map[string]any{"events": append([]logEntry{}, j.entries...)})...)
}
