package drill

import (
	"context"
	"net/http"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// A verb is an action of a buyer.
type verb string

const (
	place  verb = "place"
	lookup verb = "look"
	pay    verb = "pay"
	cancel verb = "cancel"
)

// A call is one request of a buyer and its answer.
type call struct {
	verb            verb
	node            int // index of the node
	buyer, sku, key string
	quantity        int
	order           string // id of the order to pay or cancel
	ref             string // payment reference
	location        string // URL of the order to look up
	ip              string // address of the buyer; if empty, the loopback address

	sent    time.Time
	latency time.Duration
	judge.Answer
}

// intent identifies a call and its repetitions: an order under a key, a payment under a
// reference, or a cancellation.
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

// orders reports whether the call is about an order under a key. Payments and
// cancellations are not.
func (c *call) orders() bool { return c.verb == place || c.verb == lookup }

func (c *call) request() judge.Request {
	r := judge.Request{Kind: judge.First, Node: c.node, Buyer: c.buyer, Key: c.key, Quantity: c.quantity, Sent: c.sent, Latency: c.latency, Answer: c.Answer}
	if c.verb == lookup {
		r.Kind = judge.Lookup
	}
	return r
}

func (c *call) closing() judge.Closing {
	return judge.Closing{Cancel: c.verb == cancel, Node: c.node, OrderID: c.order, Buyer: c.buyer, Ref: c.ref, Sent: c.sent, Latency: c.latency, Answer: c.Answer}
}

// accepted reports whether the answer promises a durable order, a payment or a
// cancellation. A 202 does not.
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

// keyMark and refMark are in every key and every payment reference, so that a fault can
// find them in the bytes on a wire.
const (
	keyMark = "key."
	refMark = "ref."
)

// callTimeout is a buyer's timeout. It is longer than lab.Wait, after which a node answers
// 202.
const callTimeout = lab.Wait + time.Second

// ask sends a call and returns a copy with the answer.
func (c call) ask(ctx context.Context, l *lab.Lab, conns *http.Client) *call {
	at := client.New(l.Nodes[c.node].URL(), c.sku, conns)
	token, _ := l.Token(c.buyer, false) // without a token the node refuses
	buyer := client.Buyer{Subject: c.buyer, Token: token, IP: c.ip}
	c.sent = time.Now()
	switch c.verb {
	case place:
		c.Answer = at.Order(ctx, judge.First, buyer, c.key, c.quantity).Answer
	case lookup:
		c.Answer = at.Lookup(ctx, buyer, judge.Request{Answer: judge.Answer{Location: c.location}}).Answer
	default:
		c.Answer = at.Close(ctx, buyer, c.order, c.verb == cancel, c.ref).Answer
	}
	c.latency = time.Since(c.sent)
	return &c
}

// do sends a call and records it, with or without an answer.
func (a *round) do(ctx context.Context, asked call) *call {
	c := asked.ask(ctx, a.Lab, a.http)
	a.bookMu.Lock()
	defer a.bookMu.Unlock()
	a.book = append(a.book, c)
	if about := c.intent(); c.accepted() && !a.promised[about] {
		a.promised[about] = true
		a.promises = append(a.promises, call{verb: about.verb, buyer: c.buyer, sku: c.sku, key: c.key, quantity: c.quantity, order: c.order, ref: c.ref})
	}
	return c
}
