package drill

import (
	"context"
	"net/http"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// What a buyer can ask for.
type verb string

const (
	place  verb = "place"
	look   verb = "look"
	pay    verb = "pay"
	cancel verb = "cancel"
)

// A call is one request of a buyer and its answer.
type call struct {
	verb            verb
	node            int // index of the one that was asked
	buyer, sku, key string
	quantity        int
	order           string // what pay and cancel are for
	ref             string // of a payment
	location        string // of the order to look at
	ip              string // of the buyer; empty: the loopback address

	sent    time.Time
	latency time.Duration
	judge.Answer
}

// intent is what a call is about, however often it is sent: an order under a key, a
// payment under a reference, or a cancellation.
type intent struct {
	verb            verb
	buyer, sku, key string
	order, ref      string
}

func (c *call) intent() intent {
	if c.orders() {
		return intent{verb: place, buyer: c.buyer, sku: c.sku, key: c.key}
	}
	return intent{verb: c.verb, order: c.order, ref: c.ref}
}

// orders reports whether the call is about a key, and not about an order's end.
func (c *call) orders() bool { return c.verb == place || c.verb == look }

func (c *call) request() judge.Request {
	r := judge.Request{Kind: judge.First, Node: c.node, Buyer: c.buyer, Key: c.key, Quantity: c.quantity, Sent: c.sent, Latency: c.latency, Answer: c.Answer}
	if c.verb == look {
		r.Kind = judge.Lookup
	}
	return r
}

func (c *call) closing() judge.Closing {
	return judge.Closing{Cancel: c.verb == cancel, Node: c.node, OrderID: c.order, Buyer: c.buyer, Ref: c.ref, Sent: c.sent, Latency: c.latency, Answer: c.Answer}
}

// accepted reports whether the answer promises a durable order, or that it was paid or
// cancelled. A 202 promises nothing.
func (c *call) accepted() bool {
	if c.orders() {
		return c.request().Announces()
	}
	return c.closing().Done()
}

// refused reports whether the answer is a final refusal.
func (c *call) refused() bool {
	if c.orders() {
		return c.request().Refuses()
	}
	return c.closing().Refuses()
}

// The marks are in every key and every payment reference, so that a fault can find them
// on the wire.
const (
	keyMark = "key."
	refMark = "ref."
)

// callTimeout is when a buyer gives up on a node. The node waits for a second
// before it says 202.
const callTimeout = lab.Wait + time.Second

// ask makes a call.
func (c call) ask(ctx context.Context, l *lab.Lab, conns *http.Client) *call {
	at := client.New(l.Nodes[c.node].URL(), c.sku, conns)
	token, _ := l.Token(c.buyer, false) // without one the nodes refuse
	buyer := client.Buyer{Subject: c.buyer, Token: token, IP: c.ip}
	c.sent = time.Now()
	switch c.verb {
	case place:
		c.Answer = at.Order(ctx, judge.First, buyer, c.key, c.quantity).Answer
	case look:
		c.Answer = at.Lookup(ctx, buyer, judge.Request{Answer: judge.Answer{Location: c.location}}).Answer
	default:
		c.Answer = at.Close(ctx, buyer, c.order, c.verb == cancel, c.ref).Answer
	}
	c.latency = time.Since(c.sent)
	return &c
}

// do makes a call and books it, with its answer or without.
func (a *round) do(ctx context.Context, asked call) *call {
	c := asked.ask(ctx, a.Lab, a.http)
	a.booking.Lock()
	defer a.booking.Unlock()
	a.book = append(a.book, c)
	if about := c.intent(); c.accepted() && !a.promised[about] {
		a.promised[about] = true
		a.promises = append(a.promises, call{verb: about.verb, buyer: c.buyer, sku: c.sku, key: c.key, quantity: c.quantity, order: c.order, ref: c.ref})
	}
	return c
}
