package locktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// A resource is what a lock protects: a number that is read and, later, written.
// It refuses a write that carries a smaller fencing token than it has seen.
type resource struct {
	unfenced bool // the broken twin: whoever writes, writes

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
		return fmt.Errorf("%w: %d after %d", errFenced, fence, r.fence)
	}
	r.value, r.fence = value, max(fence, r.fence)
	return nil
}

// A history is what the holders did: each read a number and wrote the next one.
type history struct {
	clock atomic.Int64 // a counter, because the clock of a bubble may stand still
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// addition is one: what it read, under which token.
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

// check looks for an order of the additions, in agreement with when they began
// and ended, in which each read what the one before wrote, under a token greater
// than the one before had.
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
		return fmt.Errorf("no order of the %d additions explains what they read, with rising tokens", len(h.ops))
	}
	return nil
}
