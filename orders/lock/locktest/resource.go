package locktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// A resource is a number that a lock protects. It rejects a write whose fencing token is
// smaller than the greatest token so far.
type resource struct {
	unfenced bool // accept all writes: the broken twin

	mu    sync.Mutex
	value int
	fence int64
}

var errFenced = errors.New("fenced off")

func (r *resource) read() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value
}

func (r *resource) write(fence int64, value int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.fence && !r.unfenced {
		return fmt.Errorf("%w: token %d after %d", errFenced, fence, r.fence)
	}
	r.value, r.fence = value, max(fence, r.fence)
	return nil
}

// A history contains the additions of all holders.
type history struct {
	clock atomic.Int64 // a counter, because the clock of a bubble may stand still
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// addition is one read of a number and the write of the next number, under a fencing token.
type addition struct {
	read  int
	fence int64
}

func (h *history) add(client int, began int64, a addition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Output: a,
		Call: began, Return: h.clock.Add(1),
	})
}

// check returns an error if the additions are not linearizable: there must be an order that
// respects their beginnings and ends, and in which each addition reads the number that the
// previous one wrote, under a greater token.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	model := porcupine.Model{
		Init: func() any { return addition{} },
		Step: func(state, _, output any) (bool, any) {
			before, now := state.(addition), output.(addition)
			return now.read == before.read && now.fence > before.fence, addition{now.read + 1, now.fence}
		},
		Equal: func(a, b any) bool { return a == b },
	}
	if !porcupine.CheckOperations(model, h.ops) {
		return fmt.Errorf("additions: no order of the %d explains the numbers that they read, with increasing tokens", len(h.ops))
	}
	return nil
}
