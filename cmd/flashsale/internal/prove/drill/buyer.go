package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// A buyer orders, repeats calls without a final answer, and then pays, cancels, or lets
// the order expire. At the buyer's limit it takes a new name.
type buyer struct {
	*round
	number int
	names  int // names used so far
	asks   int // keys and payment references used so far
	random *rand.Rand
}

// patience is the longest time for which a buyer repeats a call without a final answer.
const patience = 8 * time.Second

// buy runs the buyer until ctx ends. It completes an order that it has begun.
func (b *buyer) buy(ctx context.Context) {
	for ctx.Err() == nil {
		b.orderOnce(ctx)
		sleep(ctx, b.between(50*time.Millisecond, 300*time.Millisecond))
	}
}

func (b *buyer) between(least, most time.Duration) time.Duration {
	return lab.RandomDuration(b.random, least, most)
}

func (b *buyer) name() string {
	return fmt.Sprintf("buyer-%d-%d-%d", b.round.number, b.number, b.names)
}

func (b *buyer) orderOnce(ctx context.Context) {
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
		b.finish(ctx, c)
	}
}

// finish decides what the buyer does with an accepted order.
func (b *buyer) finish(ctx context.Context, c *call) {
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
	case 5: // pays and cancels at the same time
		other := b.clone()
		b.later(func() { other.settle(ctx, cancelling) })
		b.settle(ctx, paying)
	case 6: // pays after cancelling
		b.settle(ctx, cancelling)
		b.settle(ctx, paying)
	case 2, 7, 8: // pays after a while, or after the order has expired
		late := b.clone()
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

// clone returns the same buyer for a parallel call. It has its own random numbers,
// because a rand.Rand must not be shared by goroutines.
func (b *buyer) clone() *buyer {
	return &buyer{round: b.round, number: b.number, random: rand.New(rand.NewPCG(b.random.Uint64(), 0))}
}

// settle repeats a call at other nodes, with the same key or reference, until the answer
// is final. It continues for a moment after ctx has ended.
func (b *buyer) settle(ctx context.Context, c call) *call {
	until := time.Now().Add(patience)
	for {
		got := b.do(b.runCtx, c)
		if got.Status == http.StatusAccepted && b.random.IntN(2) == 0 {
			seen := b.do(b.runCtx, call{verb: lookup, node: b.random.IntN(nodeCount), buyer: c.buyer, sku: c.sku, key: c.key, quantity: c.quantity, location: got.Location})
			if seen.accepted() {
				return seen
			}
		}
		if got.accepted() || got.refused() || time.Now().After(until) || b.runCtx.Err() != nil ||
			ctx.Err() != nil && time.Now().Add(patience/2).After(until) {
			return got
		}
		c.node = (c.node + 1 + b.random.IntN(nodeCount-1)) % nodeCount
		// Half of the buyers wait until no late script can take units, so a refusal after
		// that must be final.
		if least := 100 * time.Millisecond; b.random.IntN(2) == 0 {
			sleep(b.runCtx, b.between(least, 3*least))
		} else {
			sleep(b.runCtx, deadline+b.between(least/10, 2*least))
		}
	}
}

const (
	replayers     = 12 // goroutines per node
	replayTimeout = 500 * time.Millisecond
)

// replay repeats accepted orders, payments and cancellations at one node. In each turn it
// repeats two calls: the next one of its share, which is every twelfth promise, and a
// random one of the 200 newest. Its timeout is short, so that a node that hangs does not
// stop the replays. After ctx has ended, replay continues until it has repeated its whole
// share once, for at most a buyer's patience.
func (a *round) replay(ctx context.Context, node, share int, random *rand.Rand) {
	ends, cancel := context.WithCancel(a.runCtx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })()
	const newest = 200 // about the promises of the last seconds
	for turn := share; ends.Err() == nil; turn += replayers {
		a.bookMu.Lock()
		promises := a.promises
		a.bookMu.Unlock()
		if ctx.Err() != nil && turn >= len(promises) {
			return
		}
		if n := len(promises); n > 0 {
			for _, i := range []int{turn % n, n - 1 - random.IntN(min(n, newest))} {
				promised := promises[i]
				promised.node = node
				soon, cancel := context.WithTimeout(a.runCtx, replayTimeout)
				a.do(soon, promised)
				cancel()
			}
		}
		sleep(ctx, 450*time.Millisecond)
	}
}

// probe orders one unit whenever the sale has neither sold nor refused for a while. The
// buyer is below the limit, and the node is healthy.
func (a *round) probe(ctx context.Context, sale int) {
	l, asked := a.liveness[sale], 0
	var busy = make(chan struct{}, 4)
	for ctx.Err() == nil {
		sleep(ctx, 100*time.Millisecond)
		nodes := a.state.usable()
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
			if a.do(a.runCtx, c).refused() {
				l.refuses(&a.state)
			}
			<-busy
		})
	}
}
