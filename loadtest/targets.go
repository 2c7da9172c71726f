package loadtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// fate is what a buyer does with an accepted order.
type fate int

const (
	leave fate = iota
	cancel
	pay
)

// attempt is one request as planned, before it is sent.
type attempt struct {
	kind     Kind
	buyer    buyer
	key      string
	quantity int
	fate     fate
}

// targets decides what each request of the attack asks for. Kinds, quantities
// and fates come from the seed; which accepted order is replayed, and who
// orders a second time, follows what the server has answered so far.
type targets struct {
	c   Config
	url string

	mu       sync.Mutex
	rng      *rand.Rand
	crowd    []buyer
	next     int       // first orders so far
	attempts []attempt // by number
	latest   int       // the latest attempt under a new key
	accepted []int     // attempts answered 201, to be replayed
	units    map[string]int
	eager    []buyer // buyers to order a second time, the keenest last
}

func newTargets(c Config, crowd []buyer) *targets {
	return &targets{
		c: c, url: strings.TrimSuffix(c.Target, "/") + "/v1/orders",
		rng:    rand.New(rand.NewPCG(uint64(c.Seed), 0)),
		crowd:  crowd,
		latest: -1,
		units:  map[string]int{},
	}
}

// target is vegeta's Targeter. The attempt's number travels in the URL's
// fragment: it never leaves the client, and vegeta returns the URL with every
// result, also when there was no answer. (Its sequence number would not do:
// it is taken before the Targeter is asked, by many workers at once.)
func (t *targets) target(out *vegeta.Target) error {
	t.mu.Lock()
	a := t.draw()
	n := len(t.attempts)
	if a.kind != Replay {
		t.latest = n
	}
	t.attempts = append(t.attempts, a)
	t.mu.Unlock()

	out.Method = http.MethodPost
	out.URL = t.url + "#" + strconv.Itoa(n)
	out.Body = orderBody(t.c.SKU, a.quantity)
	out.Header = http.Header{
		"Content-Type":    {"application/json"},
		"Idempotency-Key": {a.key},
	}
	a.buyer.sign(out.Header)
	return nil
}

// draw plans the next attempt. It takes the same number of random values
// whatever it returns, so that a seed means the same plan.
func (t *targets) draw() attempt {
	share, coin, quantity := t.rng.Float64(), t.rng.Float64(), 1+t.rng.IntN(t.c.MaxQuantity)
	end := t.rng.Float64()
	a := attempt{kind: First, quantity: quantity, key: fmt.Sprintf("order-%07d", len(t.attempts))}
	switch {
	case end < t.c.Cancels:
		a.fate = cancel
	case end < t.c.Cancels+t.c.Payments:
		a.fate = pay
	}
	switch {
	case share < t.c.Replays && t.latest >= 0:
		// A double click, most likely before the first has been answered; or
		// an order accepted a while ago.
		n := t.latest
		if coin >= 0.5 && len(t.accepted) > 0 {
			n = t.accepted[int((coin-0.5)*2*float64(len(t.accepted)))]
		}
		a = t.attempts[n]
		a.kind = Replay
		return a
	case share >= t.c.Replays && share < t.c.Replays+t.c.SecondOrders && len(t.eager) > 0:
		a.kind = Second
		a.buyer = t.eager[len(t.eager)-1]
		t.eager = t.eager[:len(t.eager)-1]
		// Enough to pass the limit, if one order may ask for that much.
		a.quantity = min(t.c.MaxQuantity, max(1, t.c.PerBuyerLimit-t.units[a.buyer.subject]+1))
		if a.fate = leave; t.c.onPayment() {
			a.fate = pay // the limit is for what is paid
		}
		return a
	}
	if t.next >= len(t.crowd) {
		a.kind = Second // everybody has been here
	}
	a.buyer = t.crowd[t.next%len(t.crowd)]
	t.next++
	if a.fate == pay && t.c.onPayment() {
		// Their first orders will be accepted, and pass no limit: they need not
		// wait for that.
		t.units[a.buyer.subject] += a.quantity
		t.eager = append(t.eager, a.buyer)
	}
	return a
}

// numbered returns the attempt behind a result's URL, and its number.
func (t *targets) numbered(url string) (attempt, int, error) {
	_, fragment, _ := strings.Cut(url, "#")
	n, err := strconv.Atoi(fragment)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || n < 0 || n >= len(t.attempts) {
		return attempt{}, 0, fmt.Errorf("loadtest: a result for %q, which was never planned", url)
	}
	return t.attempts[n], n, nil
}

// took tells the plan that attempt n has been accepted.
func (t *targets) took(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempts[n]
	if a.kind == Replay {
		return
	}
	t.accepted = append(t.accepted, n)
	if a.fate != cancel && !t.c.onPayment() {
		// Whoever got past the limit tries again first: a gate that counts
		// late is caught by the next one.
		t.units[a.buyer.subject] += a.quantity
		t.eager = append(t.eager, a.buyer)
	}
}
