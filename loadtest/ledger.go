package loadtest

import (
	"slices"
	"sync"

	"flashsale/loadtest/judge"
)

// A record is a list that only grows. Its entries do not change. It is safe for
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

// stockLine contains the available units at each reading of the sale's public page.
type stockLine = record[int]

// ledger contains all requests and closings with their answers.
type ledger struct {
	requests record[judge.Request]
	closings record[judge.Closing]
}

// open returns the orders that were announced as pending and that no client has tried to close.
// The order with the fewest units comes first.
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
