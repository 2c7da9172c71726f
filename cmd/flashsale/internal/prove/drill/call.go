package drill

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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

// A call is one request of a buyer and what it heard.
type call struct {
	verb            verb
	node            int // index of the one that was asked
	buyer, sku, key string
	quantity        int
	order           string // what pay and cancel are for
	ref             string // of a payment
	sent, ended     time.Time
	status          int         // 0: no answer
	code            string      // of a problem
	got             judge.Order // of a 2xx
	fault           string      // how the form of the answer breaks the contract
	location        string
	at              time.Duration // when it was answered, in the act
}

// definiteNo are the refusals after which nothing may come about any more.
var definiteNo = map[verb][]string{
	place:  {"sold_out", "buyer_limit", "not_open", "closed"},
	pay:    {"sold_out", "buyer_limit", "order_closed", "already_paid", "closed", "not_open"},
	cancel: {"already_paid", "order_closed"},
}

// no tells whether the answer is a definite no.
func (c *call) no() bool { return slices.Contains(definiteNo[c.verb], c.code) }

// yes tells whether the answer promises a durable order, or that it was paid or
// cancelled. A 202 promises nothing.
func (c *call) yes() bool {
	switch c.verb {
	case place:
		return c.status == http.StatusCreated
	case look:
		return c.status == http.StatusOK && c.got.Status != "reserved" && c.got.Status != "rejected"
	}
	return c.status == http.StatusOK
}

// unknown tells whether the answer leaves it open what came of the call.
func (c *call) unknown() bool { return !c.yes() && !c.no() }

// wrong tells of an answer that the API does not have.
func (c *call) wrong() bool {
	if c.fault != "" {
		return true
	}
	switch c.status {
	case 0, 200, 201, 202, 409, 429, 503:
		return c.status == 409 && !c.no() && c.code != "in_progress"
	case 404:
		return c.verb == place
	}
	return true
}

func (c *call) String() string {
	what := c.code
	switch {
	case c.status == 0:
		what = "no answer"
	case c.status < 300:
		what = c.got.Status
	}
	if c.fault != "" {
		what += ", " + c.fault
	}
	return fmt.Sprintf("%d %s (node-%d, %.1fs)", c.status, what, c.node+1, c.at.Seconds())
}

// The marks are in every key and every payment reference, for the nemesis to
// find them on the wire.
const (
	keyMark = "key."
	refMark = "ref."
)

// callTimeout is when a buyer gives up on a node. The node waits for a second
// before it says 202.
const callTimeout = lab.Wait + time.Second

// do makes a call and books it, with its answer or without.
func (a *act) do(ctx context.Context, c call) *call {
	at := client.New(a.Nodes[c.node].URL(), c.sku, a.http)
	token, _ := a.Token(c.buyer, false) // without one the nodes refuse
	buyer := client.Buyer{Subject: c.buyer, Token: token}
	location := c.location
	c.sent, c.location = time.Now(), ""
	var answer judge.Answer
	switch c.verb {
	case place:
		answer = at.Order(ctx, judge.First, buyer, c.key, c.quantity).Answer
	case look:
		answer = at.Lookup(ctx, buyer, judge.Request{Answer: judge.Answer{Location: location}}).Answer
	default:
		answer = at.Close(ctx, buyer, c.order, c.verb == cancel, c.ref).Answer
	}
	c.ended = time.Now()
	c.status, c.code, c.location, c.fault = answer.Status, answer.Code, answer.Location, answer.Fault
	if answer.Order != nil {
		c.got = *answer.Order
	}
	c.at = c.ended.Sub(a.began)
	a.booking.Lock()
	defer a.booking.Unlock()
	a.book = append(a.book, &c)
	if about := c.intent(); c.yes() && !a.promised[about] {
		a.promised[about] = true
		a.promises = append(a.promises, call{verb: about.verb, buyer: c.buyer, sku: c.sku, key: c.key, quantity: c.quantity, order: c.order, ref: c.ref})
	}
	return &c
}
