package loadtest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// fate is the action that follows the acceptance of an order.
type fate int

const (
	leave fate = iota
	cancel
	pay
)

// attempt is one planned request.
type attempt struct {
	kind     judge.Kind
	buyer    client.Buyer
	key      string
	quantity int
	fate     fate
}

// targets plans the requests for one sale. Kinds, quantities and fates come from the
// seed. The choice of the replayed order and of the buyer of a second order depends on
// the answers so far.
type targets struct {
	c      Config
	client client.Client
	sale   int // number of the sale

	mu       sync.Mutex
	rng      *rand.Rand
	arrivals *arrivals
	ordered  map[string]bool // buyers who have ordered
	attempts []attempt       // index: number of the attempt
	latest   int             // number of the latest attempt with a new key
	accepted []int           // numbers of the accepted attempts, which may be replayed
	units    map[string]int
	eager    []client.Buyer // buyers for second orders; the last one is next
}

func newTargets(c Config, sale int, a *arrivals) *targets {
	return &targets{
		c: c, client: client.New(c.Target, c.SKU, nil), sale: sale,
		rng:      rand.New(rand.NewPCG(uint64(c.Seed), uint64(sale))),
		arrivals: a, ordered: map[string]bool{},
		latest: -1,
		units:  map[string]int{},
	}
}

// target implements vegeta.Targeter. It puts the numbers of the sale and of the attempt
// into the fragment of the URL. Clients do not send a fragment, and vegeta returns the
// URL with each result, even without an answer. vegeta's sequence number does not
// identify the attempt, because workers take it before they call the Targeter, in
// another order.
func (t *targets) target(out *vegeta.Target) error {
	t.mu.Lock()
	a := t.draw()
	n := len(t.attempts)
	if a.kind != judge.Replay {
		t.latest = n
	}
	t.attempts = append(t.attempts, a)
	t.mu.Unlock()

	t.client.Target(out, a.buyer, a.key, a.quantity)
	out.URL += fmt.Sprintf("#%d/%d", t.sale, n)
	return nil
}

// draw plans the next attempt. It always draws the same number of random values, so
// that a seed always gives the same plan.
func (t *targets) draw() attempt {
	share, coin, quantity := t.rng.Float64(), t.rng.Float64(), 1+t.rng.IntN(t.c.MaxQuantity)
	end := t.rng.Float64()
	a := attempt{kind: judge.First, quantity: quantity, key: t.c.key(fmt.Sprintf("order-%07d", len(t.attempts)))}
	switch {
	case end < t.c.CancelShare:
		a.fate = cancel
	case end < t.c.CancelShare+t.c.Payments:
		a.fate = pay
	}
	switch {
	case share < t.c.Replays && t.latest >= 0:
		// Replay the latest attempt, usually before its answer, or an attempt that was
		// accepted earlier.
		n := t.latest
		if coin >= 0.5 && len(t.accepted) > 0 {
			n = t.accepted[int((coin-0.5)*2*float64(len(t.accepted)))]
		}
		a = t.attempts[n]
		a.kind = judge.Replay
		return a
	case share >= t.c.Replays && share < t.c.Replays+t.c.SecondOrders && len(t.eager) > 0:
		a.kind = judge.Second
		a.buyer = t.eager[len(t.eager)-1]
		t.eager = t.eager[:len(t.eager)-1]
		// Ask for one unit beyond the limit, unless MaxQuantity is smaller.
		a.quantity = min(t.c.MaxQuantity, max(1, t.c.UnitsPerBuyer-t.units[a.buyer.Subject]+1))
		if a.fate = leave; t.c.onPayment() {
			a.fate = pay // only paid units count towards the limit
		}
		return a
	}
	a.buyer = t.arrivals.next()
	if t.ordered[a.buyer.Subject] {
		a.kind = judge.Second
	}
	t.ordered[a.buyer.Subject] = true
	if a.fate == pay && t.c.onPayment() {
		// Accept these orders in advance: unpaid orders are always accepted and no
		// limit applies.
		t.units[a.buyer.Subject] += a.quantity
		t.eager = append(t.eager, a.buyer)
	}
	return a
}

// numbered returns the attempt with this number.
func (t *targets) numbered(n int) (attempt, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < 0 || n >= len(t.attempts) {
		return attempt{}, false
	}
	return t.attempts[n], true
}

// accept records that attempt n was accepted.
func (t *targets) accept(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempts[n]
	if a.kind == judge.Replay {
		return
	}
	t.accepted = append(t.accepted, n)
	if a.fate != cancel && !t.c.onPayment() {
		// This buyer orders again next. A gate that counts orders late accepts that
		// order.
		t.units[a.buyer.Subject] += a.quantity
		t.eager = append(t.eager, a.buyer)
	}
}
