package loadtest

import (
	"slices"
	"sync"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// A record is a list that grows, of entries that never change. It is safe for
// concurrent use.
type record[T any] struct {
	mu   sync.Mutex
	list []T
}

func (r *record[T]) add(entry T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, entry)
}

// read returns the entries so far.
func (r *record[T]) read() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.list)
}

// stockLine is the stock over time, as the sale's public page shows it.
type stockLine = record[report.StockPoint]

// ledger has each request and closing with its answer.
type ledger struct {
	requests record[judge.Request]
	closings record[judge.Closing]
}

// open lists the orders that were announced and that no client tried to close, the
// smallest first.
func (l *ledger) open() []*judge.Outcome {
	touched := map[string]bool{}
	for _, c := range l.closings.read() {
		touched[c.OrderID] = true
	}
	list := slices.DeleteFunc(judge.Outcomes(l.requests.read()), func(o *judge.Outcome) bool {
		return o.Announced == nil || touched[o.IDs[0]] || o.Announced.Order.Status != judge.Pending
	})
	slices.SortStableFunc(list, func(a, b *judge.Outcome) int { return a.Quantity - b.Quantity })
	return list
}
