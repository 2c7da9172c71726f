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

// A crowd orders, replays, pays and cancels until it is told to stop, and
// remembers what it was told.
type crowd struct {
	nodes []*shop
	sku   string

	mu      sync.Mutex
	yes     map[string]orders.Order // durable, as answered last
	open    map[string]placed
	no      map[string]int // refusals and failures
	success atomic.Int64   // orders answered as durable
}

// placed is an order that was answered 202.
type placed struct{ buyer, key string }

// gather starts a crowd. The returned function stops it and waits for its calls.
func gather(t *testing.T, sku string, people int, nodes ...*shop) (c *crowd, home func()) {
	t.Helper()
	c = &crowd{nodes: nodes, sku: sku, yes: map[string]orders.Order{}, open: map[string]placed{}, no: map[string]int{}}
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
	home = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(home)
	return c, home
}

// shop makes one order for buyer, with random choices from r, and cancels it, pays it or
// leaves it.
func (c *crowd) shop(t *testing.T, r *rand.Rand, buyer, key string) {
	ctx, p := t.Context(), c.nodes[r.IntN(len(c.nodes))]
	answer, err := p.Place(ctx, Placement{Buyer: buyer, SKU: c.sku, Quantity: 1 + r.Int64N(2), Key: key})
	if err != nil {
		c.mu.Lock()
		c.no[err.Error()[:min(60, len(err.Error()))]]++
		c.mu.Unlock()
		// A refused buyer orders again after a short pause.
		pause := time.NewTimer(time.Duration(r.IntN(5000)) * time.Microsecond)
		<-pause.C
		return
	}
	o := *answer.Order
	if o.Status == orders.Reserved {
		c.mu.Lock()
		c.open[o.ID] = placed{buyer, key}
		c.mu.Unlock()
		return
	}
	c.success.Add(1)
	c.note(o)
	var after *orders.Order
	switch r.IntN(10) {
	case 0, 1, 2, 3, 4, 5: // most change their minds, or there would be no sale for long
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
	c.yes[o.ID] = o
}

// verdict settles the sale and names what is wrong with what it has become.
func (c *crowd) verdict(t *testing.T) {
	t.Helper()
	p := c.nodes[0]
	a := p.settled(t, c.sku)
	if a.Oversold != 0 || a.Available+a.Sold != a.Total {
		t.Errorf("audit: %+v", a)
	}
	rows := kit.RowsOf(t, p.store.DB)
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, told := range c.yes {
		r, ok := rows[id]
		switch {
		case !ok || r.Buyer != told.Buyer || r.Quantity != told.Quantity:
			t.Errorf("lost: told %+v, the row is %+v", told, r)
		case told.Status != orders.PendingPayment && r.Status != told.Status:
			t.Errorf("told that %s is %s, it is %s", id, told.Status, r.Status)
		}
	}
	// A 202 ends durable, rejected, or as never having been.
	for id, by := range c.open {
		o, err := p.Order(t.Context(), by.buyer, id, c.sku, by.key)
		if err != nil && !errors.Is(err, orders.ErrNotFound) || err == nil && o.Status == orders.Reserved {
			t.Errorf("202 for %s of %s: %+v, %v", id, by.buyer, o, err)
		}
	}
	units, keys := map[string]int64{}, map[string]string{}
	for id, r := range rows {
		if r.Status.Open() {
			units[r.Buyer] += r.Quantity
		}
		if other, twice := keys[r.Buyer+"/"+*r.IdempotencyKey]; twice {
			t.Errorf("%s and %s are both of %s under %s", id, other, r.Buyer, *r.IdempotencyKey)
		}
		keys[r.Buyer+"/"+*r.IdempotencyKey] = id
	}
	s, err := p.store.Sale(t.Context(), c.sku)
	check.Must(t, err)
	for buyer, n := range units {
		if n > s.PerBuyerLimit {
			t.Errorf("%s has %d units, of at most %d", buyer, n, s.PerBuyerLimit)
		}
	}
	t.Logf("%d durable answers, %d without; refused or failed: %v; audit: %+v", c.success.Load(), len(c.open), c.no, a)
}

// moves waits until the crowd has got so many more durable answers.
func (c *crowd) moves(t *testing.T, what string, more int64) {
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
