package shop

import (
	"slices"
	"sync"
	"time"

	"flashsale/orders/controller"
)

// waiters holds this node's callers that wait for a keeper's decision, by order id.
type waiters struct {
	mu   sync.Mutex
	byID map[string][]*waiter
}

type waiter struct {
	id     string
	since  time.Time
	notice chan controller.Notice // has a buffer of one, so notify never blocks
}

// wait registers a caller. A notice that was sent before is missed. Therefore the caller must
// register before the order can become durable, or read the database afterwards.
func (w *waiters) wait(id string) *waiter {
	added := &waiter{id: id, since: time.Now(), notice: make(chan controller.Notice, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[string][]*waiter{}
	}
	w.byID[id] = append(w.byID[id], added)
	return added
}

// leave removes a waiter.
func (w *waiters) leave(left *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.byID[left.id], func(other *waiter) bool { return other == left })
	if w.byID[left.id] = rest; len(rest) == 0 {
		delete(w.byID, left.id)
	}
}

// notify sends each notice to all callers that wait for its order, and removes these callers.
func (w *waiters) notify(notices ...controller.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range notices {
		for _, waiting := range w.byID[n.ID] {
			waiting.notice <- n
		}
		delete(w.byID, n.ID)
	}
}

// overdue returns the ids of at most limit orders whose first caller has waited longer than d.
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
