package shop

import (
	"slices"
	"sync"
	"time"

	"flashsale/orders/controller"
)

// waiters are this node's callers whose order is on its way into the database.
type waiters struct {
	mu   sync.Mutex
	byID map[string][]*waiter
}

type waiter struct {
	id     string
	since  time.Time
	notice chan controller.Notice // of one, so that telling never blocks
}

// wait registers a caller. It must be done before the order can become
// durable, or be followed by a look into the database.
func (w *waiters) wait(id string) *waiter {
	one := &waiter{id: id, since: time.Now(), notice: make(chan controller.Notice, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[string][]*waiter{}
	}
	w.byID[id] = append(w.byID[id], one)
	return one
}

// leave ends a wait that nobody is interested in any more.
func (w *waiters) leave(one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.byID[one.id], func(other *waiter) bool { return other == one })
	if w.byID[one.id] = rest; len(rest) == 0 {
		delete(w.byID, one.id)
	}
}

// tell gives everybody who waits for an order the outcome.
func (w *waiters) tell(outcomes ...controller.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range outcomes {
		for _, one := range w.byID[t.ID] {
			one.notice <- t
		}
		delete(w.byID, t.ID)
	}
}

// overdue returns orders somebody has waited for longer than d, at most limit.
func (w *waiters) overdue(d time.Duration, limit int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id, waiting := range w.byID {
		if len(ids) == limit {
			break
		}
		if time.Since(waiting[0].since) > d {
			ids = append(ids, id)
		}
	}
	return ids
}
