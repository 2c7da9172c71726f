package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A row is an order in the database at the end.
type row struct {
	id, sku, buyer, key, status, ref string
	quantity                         int
	made, paid                       time.Duration // in the act, by the database's clock; 0: not
}

func (r row) String() string {
	if r.id == "" {
		return "no such order"
	}
	s := fmt.Sprintf("order %s, %s, %d units, of %.1fs", r.id, r.status, r.quantity, r.made.Seconds())
	if r.paid != 0 {
		s += fmt.Sprintf(", paid %.1fs by %s", r.paid.Seconds(), r.ref)
	}
	return s
}

// An intent is one thing that a buyer wants, however often it is sent: an order
// under a key, a payment under a reference, or a cancellation.
type intent struct {
	verb            verb
	buyer, sku, key string // of an order
	order, ref      string // of a payment or a cancellation
}

func (c *call) intent() intent {
	if c.verb == place || c.verb == look {
		return intent{verb: place, buyer: c.buyer, sku: c.sku, key: c.key}
	}
	return intent{verb: c.verb, order: c.order, ref: c.ref}
}

// An index is everything that is known, by what it is about.
type index struct {
	intents map[intent][]*call // in the order in which they were sent
	byID    map[string]row
	byKey   map[intent]row
	pauses  []pause
	broken  []string
}

// compare holds what buyers heard against what the database has. It is a pure
// function: the same book, the same verdict.
func compare(calls []*call, rows []row, pauses []pause) []string {
	x := &index{intents: map[intent][]*call{}, byID: map[string]row{}, byKey: map[intent]row{}, pauses: pauses}
	for _, r := range rows {
		x.byID[r.id] = r
		x.byKey[intent{verb: place, buyer: r.buyer, sku: r.sku, key: r.key}] = r
	}
	var order []intent
	for _, c := range calls {
		a := c.intent()
		if x.intents[a] == nil {
			order = append(order, a)
		}
		x.intents[a] = append(x.intents[a], c)
		if c.wrong() {
			x.broke("wrong answer: %s of %s is answered %s", c.verb, c.subject(), c)
		}
	}
	for _, a := range order {
		list := x.intents[a]
		slices.SortStableFunc(list, func(x, y *call) int { return x.sent.Compare(y.sent) })
		before := len(x.broken)
		if a.verb == place {
			x.orders(a, list)
		} else {
			x.closings(a, list)
		}
		x.replays(list)
		x.lastNo(a, list)
		if len(x.broken) > before {
			x.broken[before] += x.story(a, list)
		}
	}
	for _, r := range rows {
		list := x.intents[intent{verb: place, buyer: r.buyer, sku: r.sku, key: r.key}]
		if len(list) == 0 || list[0].quantity != r.quantity {
			x.broke("unasked: nobody has asked for order %s, %d of %s for %s under %s", r.id, r.quantity, r.sku, r.buyer, r.key)
		}
	}
	return x.broken
}

func (x *index) broke(format string, args ...any) {
	x.broken = append(x.broken, fmt.Sprintf(format, args...))
}

// maxCalls is how many calls of an intent are printed.
const maxCalls = 20

// story is everything that is known of an intent, line by line, for whoever looks
// for the cause.
func (x *index) story(a intent, list []*call) string {
	var b strings.Builder
	for _, c := range list[:min(len(list), maxCalls)] {
		fmt.Fprintf(&b, "\n             %s took %s: %s", c.verb, c.ended.Sub(c.sent).Round(time.Millisecond), c)
	}
	if r := x.byKey[a]; a.verb == place {
		fmt.Fprintf(&b, "\n             the database has %s", r)
		for _, verb := range []verb{pay, cancel} {
			for other, calls := range x.intents {
				for _, c := range calls {
					if other.verb == verb && other.order == r.id {
						fmt.Fprintf(&b, "\n             %s took %s: %s", verb, c.ended.Sub(c.sent).Round(time.Millisecond), c)
					}
				}
			}
		}
	}
	return b.String()
}

// subject is what a call is about, for people.
func (c *call) subject() string {
	if c.verb == pay || c.verb == cancel {
		return "order " + c.order
	}
	return fmt.Sprintf("%s under %s by %s", c.sku, c.key, c.buyer)
}

// orders judges the answers to one key: each acceptance names the same, stored order.
func (x *index) orders(a intent, list []*call) {
	for _, c := range list {
		switch {
		case c.yes() && c.got.ID == "":
			x.broke("wrong answer: %s is answered %s without an order", c.subject(), c)
		case c.yes():
			r, stored := x.byID[c.got.ID]
			if !stored || r.status == "rejected" || r.buyer != a.buyer || r.sku != a.sku || r.key != a.key || r.quantity != c.quantity {
				x.broke("yes lost: %s was answered %s, order %s; the database has %s", c.subject(), c, c.got.ID, r)
			}
		}
	}
}

// replays judges the calls that were sent after the first acceptance. The answer must be
// the same order, or not final. A 409 would refuse a durable order.
func (x *index) replays(list []*call) {
	var first *call
	for _, c := range list {
		if c.yes() && (first == nil || c.ended.Before(first.ended)) {
			first = c
		}
	}
	for _, c := range list {
		switch {
		case first == nil || !c.sent.After(first.ended):
		case c.yes() && c.got.ID != first.got.ID:
			x.broke("two orders: %s was answered %s, order %s, and then %s, order %s", c.subject(), first, first.got.ID, c, c.got.ID)
		case c.status == 409 || c.status == 404:
			x.broke("yes, then no: %s of %s was answered %s, order %s, and then %s", c.verb, c.subject(), first, first.got.ID, c)
		}
	}
}

// closings judges a payment or a cancellation: a yes stands for good.
func (x *index) closings(a intent, list []*call) {
	r := x.byID[a.order]
	for _, c := range list {
		switch {
		case c.status == 404:
			x.broke("yes lost: %s of %s is answered %s", c.verb, c.subject(), c)
		case a.verb == pay && c.yes() && (r.status != "paid" || r.ref != a.ref):
			x.broke("yes lost: the payment %s of %s was answered %s; the database has %s", a.ref, c.subject(), c, r)
		case a.verb == cancel && c.yes() && r.status != "cancelled":
			x.broke("yes lost: the cancellation of %s was answered %s; the database has %s", c.subject(), c, r)
		case a.verb == cancel && c.code == "already_paid" && r.status != "paid":
			x.broke("yes lost: the cancellation of %s was answered %s; the database has %s", c.subject(), c, r)
		}
	}
}

// lastNo judges a no that is the last word: nothing was sent after it, and what
// was sent before it could not come about any more when it was asked for.
func (x *index) lastNo(a intent, list []*call) {
	last := list[len(list)-1]
	if !last.no() {
		return
	}
	for _, c := range list[:len(list)-1] {
		if !over(c, x.pauses).Before(last.sent) {
			return
		}
	}
	how := "it is the only call"
	if n := len(list); n > 1 {
		how = fmt.Sprintf("the call before it: %s", list[n-2])
	}
	switch r, stored := x.byKey[a]; {
	case a.verb == place && stored && r.status != "rejected":
		x.broke("no, then yes: %s was answered %s; %s; the database has %s", last.subject(), last, how, r)
	case a.verb == pay && x.byID[a.order].status == "paid" && x.byID[a.order].ref == a.ref:
		x.broke("no, then yes: the payment %s of %s was answered %s; %s; the database has %s", a.ref, last.subject(), last, how, x.byID[a.order])
	}
}
