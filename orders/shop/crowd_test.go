package shop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// A crowd is a number of buyers who place, pay and cancel orders, and record the answers.
type crowd struct {
	nodes []*shop
	sku   string

	mu        sync.Mutex
	durable   map[string]orders.Order // the last answer for each durable order, by id
	undecided map[string]request      // orders answered as Reserved, by id
	failed    map[string]int          // number of refusals and failures, by error
	success   atomic.Int64            // number of orders answered as durable
}

type request struct{ buyer, key string }

// gather starts a crowd. The returned function stops the crowd and waits for its calls.
func gather(t *testing.T, sku string, people int, nodes ...*shop) (c *crowd, stop func()) {
	t.Helper()
	c = &crowd{nodes: nodes, sku: sku, durable: map[string]orders.Order{}, undecided: map[string]request{}, failed: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	seeds := check.Rand(t)
	for i := range people {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.shop(t, r, fmt.Sprintf("buyer-%d", i), fmt.Sprint("key-", n))
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return c, stop
}

// shop makes one order for buyer, with random choices from r, and cancels it, pays it or
// leaves it.
func (c *crowd) shop(t *testing.T, r *rand.Rand, buyer, key string) {
	ctx, p := t.Context(), c.nodes[r.IntN(len(c.nodes))]
	answer, err := p.Place(ctx, Placement{Buyer: buyer, SKU: c.sku, Quantity: 1 + r.Int64N(2), Key: key})
	if err != nil {
		c.mu.Lock()
		c.failed[err.Error()[:min(60, len(err.Error()))]]++
		c.mu.Unlock()
		// A refused buyer orders again after a short pause.
		pause := time.NewTimer(time.Duration(r.IntN(5000)) * time.Microsecond)
		<-pause.C
		return
	}
	o := *answer.Order
	if o.Status == orders.Reserved {
		c.mu.Lock()
		c.undecided[o.ID] = request{buyer, key}
		c.mu.Unlock()
		return
	}
	c.success.Add(1)
	c.note(o)
	var after *orders.Order
	switch r.IntN(10) {
	case 0, 1, 2, 3, 4, 5: // many orders are cancelled, so that the sale does not sell out
		after, err = p.Cancel(ctx, buyer, o.ID)
	case 6:
		after, err = p.Pay(ctx, buyer, o.ID, "ref")
	default:
		return
	}
	if err == nil {
		c.note(*after)
	}
}

func (c *crowd) note(o orders.Order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.durable[o.ID] = o
}

// verify waits until the sale is settled, and compares the rows with the recorded answers.
func (c *crowd) verify(t *testing.T) {
	t.Helper()
	p := c.nodes[0]
	a := p.settled(t, c.sku)
	if a.Oversold != 0 || a.Available+a.Sold != a.Total {
		t.Errorf("audit: got %+v, want no units oversold or missing", a)
	}
	rows := kit.RowsOf(t, p.store.DB)
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, answer := range c.durable {
		r, ok := rows[id]
		switch {
		case !ok || r.Buyer != answer.Buyer || r.Quantity != answer.Quantity:
			t.Errorf("accepted order: got %+v in the answer and %+v as the row, want the same order", answer, r)
		case answer.Status != orders.PendingPayment && r.Status != answer.Status:
			t.Errorf("order %s: got status %s in the answer and %s in the row, want the same status", id, answer.Status, r.Status)
		}
	}
	// An undecided order becomes a row, or is gone.
	for id, by := range c.undecided {
		o, err := p.Order(t.Context(), by.buyer, id, c.sku, by.key)
		if err != nil && !errors.Is(err, orders.ErrNotFound) || err == nil && o.Status == orders.Reserved {
			t.Errorf("undecided order %s of %s: got %+v, error %v, want a row or not found", id, by.buyer, o, err)
		}
	}
	units, keys := map[string]int64{}, map[string]string{}
	for id, r := range rows {
		if r.Status.CountsAsSold() {
			units[r.Buyer] += r.Quantity
		}
		if other, twice := keys[r.Buyer+"/"+*r.IdempotencyKey]; twice {
			t.Errorf("orders %s and %s of %s: got the same key %s, want different keys", id, other, r.Buyer, *r.IdempotencyKey)
		}
		keys[r.Buyer+"/"+*r.IdempotencyKey] = id
	}
	s, err := p.store.Sale(t.Context(), c.sku)
	check.Must(t, err)
	for buyer, n := range units {
		if n > s.UnitsPerBuyer {
			t.Errorf("buyer %s: got %d units, want at most %d", buyer, n, s.UnitsPerBuyer)
		}
	}
	t.Logf("%d durable orders, %d undecided; refused or failed: %v; audit: %+v", c.success.Load(), len(c.undecided), c.failed, a)
}

// waitFor waits until the crowd has placed that number of additional durable orders.
func (c *crowd) waitFor(t *testing.T, what string, more int64) {
	t.Helper()
	from := c.success.Load()
	check.Eventually(t, fmt.Sprintf("%d more orders %s", more, what), func() bool { return c.success.Load() >= from+more })
}

func isUnavailable(err error) bool {
	for _, e := range []error{orders.ErrUnavailable, inventory.ErrBusy, inventory.ErrNoGate, inventory.ErrRebuilding, inventory.ErrEpoch, inventory.ErrStale} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
