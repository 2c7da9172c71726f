package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// A buyer orders, asks again where an answer was lost, pays, cancels, or forgets
// about it. It takes a new name where its old one may not have more units.
type buyer struct {
	*round
	number int
	names  int // so far
	asks   int // keys and references so far
	random *rand.Rand
}

// patience is how long a buyer asks again before it gives up on an answer.
const patience = 8 * time.Second

// buy is one buyer until ctx ends. What it has begun by then, it finishes.
func (b *buyer) buy(ctx context.Context) {
	for ctx.Err() == nil {
		b.once(ctx)
		sleep(ctx, b.between(50*time.Millisecond, 300*time.Millisecond))
	}
}

func (b *buyer) between(least, most time.Duration) time.Duration {
	return lab.Between(b.random, least, most)
}

func (b *buyer) name() string {
	return fmt.Sprintf("buyer-%d-%d-%d", b.round.number, b.number, b.names)
}

func (b *buyer) once(ctx context.Context) {
	quantity := 1
	if b.random.IntN(5) == 0 {
		quantity = 2
	}
	b.asks++
	c := b.settle(ctx, call{
		verb: place, node: b.random.IntN(nodeCount), buyer: b.name(), sku: b.skus[b.random.IntN(skuCount)],
		key: fmt.Sprintf("%s%d.%d", keyMark, b.number, b.asks), quantity: quantity,
	})
	switch {
	case c.Code == "buyer_limit":
		b.names++
	case c.accepted():
		b.end(ctx, c)
	}
}

// end is what becomes of an order that the buyer has.
func (b *buyer) end(ctx context.Context, c *call) {
	id := c.Order.ID
	b.asks++
	paying := call{verb: pay, node: b.random.IntN(nodeCount), buyer: c.buyer, sku: c.sku, order: id, ref: fmt.Sprintf("%s%d.%d", refMark, b.number, b.asks)}
	cancelling := call{verb: cancel, node: b.random.IntN(nodeCount), buyer: c.buyer, sku: c.sku, order: id}
	after := b.between(0, window)
	switch chance := b.random.IntN(10); chance {
	case 0, 1:
		b.settle(ctx, paying)
	case 3, 4:
		b.settle(ctx, cancelling)
	case 5: // both in the same instant
		other := b.twin()
		b.later(func() { other.settle(ctx, cancelling) })
		b.settle(ctx, paying)
	case 6: // after it was cancelled
		b.settle(ctx, cancelling)
		b.settle(ctx, paying)
	case 2, 7, 8: // pays after a while, or after the order has expired
		late := b.twin()
		if chance > 2 {
			after = window + after/3
		}
		b.later(func() {
			sleep(ctx, after)
			if ctx.Err() == nil {
				late.settle(ctx, paying)
			}
		})
	}
}

// twin is the same buyer at another call, with a chance of its own: two
// goroutines may not draw from one.
func (b *buyer) twin() *buyer {
	return &buyer{round: b.round, number: b.number, random: rand.New(rand.NewPCG(b.random.Uint64(), 0))}
}

// settle asks until the answer is definite, each time another node, under the
// same key or reference. It goes on after ctx has ended, for a moment.
func (b *buyer) settle(ctx context.Context, c call) *call {
	until := time.Now().Add(patience)
	for {
		got := b.do(b.whole, c)
		if got.Status == http.StatusAccepted && b.random.IntN(2) == 0 {
			seen := b.do(b.whole, call{verb: look, node: b.random.IntN(nodeCount), buyer: c.buyer, sku: c.sku, key: c.key, quantity: c.quantity, location: got.Location})
			if seen.accepted() {
				return seen
			}
		}
		if got.accepted() || got.refused() || time.Now().After(until) || b.whole.Err() != nil ||
			ctx.Err() != nil && time.Now().Add(patience/2).After(until) {
			return got
		}
		c.node = (c.node + 1 + b.random.IntN(nodeCount-1)) % nodeCount
		// Half of them wait until nothing more can come of the call, and take a no
		// after that for the last word.
		if least := 100 * time.Millisecond; b.random.IntN(2) == 0 {
			sleep(b.whole, b.between(least, 3*least))
		} else {
			sleep(b.whole, deadline+b.between(least/10, 2*least))
		}
	}
}

const (
	replayers     = 12 // goroutines for each node
	replayTimeout = 500 * time.Millisecond
)

// replay repeats promised orders, payments and cancellations at one node. It alternates
// between one of the newest promises and its share of all promises. A refusal is quick, so
// replay does not wait for a node that hangs. After ctx has ended, replay completes its
// first round, within a buyer's patience.
func (a *round) replay(ctx context.Context, node, share int, random *rand.Rand) {
	ends, cancel := context.WithCancel(a.whole)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })()
	const newest = 200 // the promises of some seconds
	for turn := share; ends.Err() == nil; turn += replayers {
		a.booking.Lock()
		promises := a.promises
		a.booking.Unlock()
		if ctx.Err() != nil && turn >= len(promises) {
			return
		}
		if n := len(promises); n > 0 {
			for _, i := range []int{turn % n, n - 1 - random.IntN(min(n, newest))} {
				again := promises[i]
				again.node = node
				soon, cancel := context.WithTimeout(a.whole, replayTimeout)
				a.do(soon, again)
				cancel()
			}
		}
		sleep(ctx, 450*time.Millisecond)
	}
}

// probe asks for one unit of the sale whenever the sale has answered no buyer for a while.
// The buyer is below the limit, and the node is healthy.
func (a *round) probe(ctx context.Context, sale int) {
	l, asked := a.liveness[sale], 0
	var busy = make(chan struct{}, 4)
	for ctx.Err() == nil {
		sleep(ctx, 100*time.Millisecond)
		nodes := a.state.well()
		if l.idle(&a.state) < 300*time.Millisecond || len(nodes) == 0 {
			continue
		}
		select {
		case busy <- struct{}{}:
		default:
			continue
		}
		asked++
		c := call{
			verb: place, node: nodes[asked%len(nodes)], buyer: fmt.Sprintf("probe-%d-%d-%d", a.number, sale, asked),
			sku: l.sku, key: keyMark + "probe", quantity: 1,
		}
		a.later(func() {
			if a.do(a.whole, c).refused() {
				l.refuses(&a.state)
			}
			<-busy
		})
	}
}
