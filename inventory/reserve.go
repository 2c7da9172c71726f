package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"flashsale/inventory/coalesce"
	"flashsale/inventory/internal/keys"
)

// A Request asks for Quantity units of SKU, the whole quantity or nothing.
type Request struct {
	OrderID     string // chosen by the caller, unique: the same id never takes twice
	SKU         string
	Buyer       string
	Quantity    int64
	Key         string // idempotency key, scoped to buyer and SKU; "" for none. Known until Ack
	Pays        string // the order that this one's units are for, if that is another: Key is the payment's reference, apart from all other keys
	Fingerprint string // of the body: the same key with another one is ErrMismatch
	Node        string // who waits for the order to be durable; no line break in it
	Trace       string // what the caller's trace goes on from, such as a W3C traceparent; "" for none
}

// maxTrace is the longest Trace, in bytes, that is carried through the queue.
const maxTrace = 64

// sender is Node and Trace in one, as they are queued: what is not traced
// costs neither the script nor the queue anything.
func (r *Request) sender() *string {
	if r.Trace == "" || len(r.Trace) > maxTrace {
		return &r.Node
	}
	both := r.Node + "\n" + r.Trace
	return &both
}

// scopedKey is what the gate knows the request by. A payment's reference begins with
// a space there, which a client's key does not.
func (r *Request) scopedKey() *string {
	if r.Pays == "" {
		return &r.Key
	}
	scoped := " " + r.Pays + " " + r.Key
	return &scoped
}

// A Batch is one call of the reserve script.
type Batch struct {
	SKU      string
	Requests int
	Began    time.Time // by this process's clock
	Took     time.Duration
	Err      error    // the script did not answer
	Traces   []string // of the requests that have one
}

// A Reservation is the gate's answer to a Request.
type Reservation struct {
	OrderID  string    // on a replay that of the first order
	Replayed bool      // the order was made by an earlier request under this key, and is in the queue
	At       time.Time // by Redis's clock; zero on a replay
	Epoch    int64     // of the gate that answered; with a *Refusal, the only field that is set
}

// Reserve takes units for one order and queues it for the database. Calls for
// one SKU that arrive at the same moment share a script call.
//
// Errors: a *Refusal if the gate refuses the order; the context's error if it ended
// first. After any other error the outcome is unknown, because Redis did not answer:
// the order may still be accepted, and is then found under its key. A call whose
// context ended before its request was sent has taken nothing.
func (g *Gate) Reserve(ctx context.Context, r Request) (Reservation, error) {
	reservation, err := g.state(r.SKU).group.Do(ctx, "", r)
	if errors.Is(err, coalesce.ErrFull) {
		err = refusals[-3]
	}
	return reservation, err
}

// maxLate is how long after its batch was assembled a call of the reserve script
// may still do something. A network can deliver it later, when another node has
// already refused the same requests. LATE in reserve.lua is the same duration.
const maxLate = time.Second

// reserveTries bounds how often a batch is sent. The first call of a node is sent
// twice, because the node does not know Redis's clock yet; one more try is for a
// clock that was set back.
const reserveTries = 3

var errLate = errors.New("the calls reached Redis after their deadline and did nothing")

// A redisClock estimates Redis's clock from the last answer: by how much it is ahead
// of the time since the node's start, at least. The answer has travelled for a while,
// so the true clock is never earlier than the estimate, and a deadline made of it is
// too early rather than too late.
type redisClock struct{ ahead atomic.Int64 } // ms; 0: not known yet

var started = time.Now()

// saw records Redis's clock, ms since 1970, from an answer that has just arrived.
func (c *redisClock) saw(now int64) { c.ahead.Store(now - time.Since(started).Milliseconds() - 1) }

// until converts a time of this process to Redis's clock, in ms since 1970. It
// returns 0, a deadline that has passed, if that clock is not known.
func (c *redisClock) until(at time.Time) int64 {
	ahead := c.ahead.Load()
	if ahead == 0 {
		return 0
	}
	return ahead + at.Sub(started).Milliseconds()
}

// reserveBatch is the one script call behind Reserve. It leaves an answer in
// every call, whatever happens. Its context ends by Config.Timeout.
func (s *saleState) reserveBatch(ctx context.Context, batch []*call) {
	g := s.gate
	began, changes, reply, err := s.send(ctx, batch)
	if err == nil && len(reply) != 4+len(batch) {
		err = fmt.Errorf("reserve.lua answered %d values to %d requests", len(reply), len(batch))
	}
	if g.cfg.OnBatch != nil {
		b := Batch{SKU: s.sku, Requests: len(batch), Began: began, Took: time.Since(began), Err: err}
		for _, c := range batch {
			if c.Q.Trace != "" {
				b.Traces = append(b.Traces, c.Q.Trace)
			}
		}
		g.cfg.OnBatch(b)
	}
	if err != nil {
		err = fmt.Errorf("reserve %s: %w", s.sku, err)
		for _, c := range batch {
			c.Err = err
		}
		return
	}
	epoch := number(reply[0])
	available, known := reply[2].(int64)
	// A connection that was opened for this call may have led to another Redis.
	if known && changes == g.replIDs.changes.Load() {
		s.saw(began, version{epoch, number(reply[3]), changes}, available)
	}
	for i, c := range batch {
		c.Answer, c.Err = outcome(c.Q.OrderID, reply[4+i])
		c.Answer.Epoch = epoch
	}
}

// send calls the reserve script until it has answered a call that was in time. It
// returns when the last call began, and how many changes of Redis were known then.
func (s *saleState) send(ctx context.Context, batch []*call) (began time.Time, changes int64, reply []any, err error) {
	g, start := s.gate, time.Now()
	names := []string{keys.Sale(s.sku), keys.Holds(s.sku), keys.Buyers(s.sku), keys.Queue(s.sku), keys.Keys(s.sku)}
	seen := s.latest()
	args := append(make([]any, 0, 6+6*len(batch)), 0, g.cfg.QueueLimit, WakeChannel, s.sku, seen.epoch, seen.granted)
	for _, c := range batch {
		r := &c.Q
		// By pointer: each value would be copied to the heap otherwise.
		args = append(args, &r.OrderID, &r.Buyer, &r.Quantity, r.scopedKey(), &r.Fingerprint, r.sender())
	}
	for range reserveTries {
		changes, began = g.replIDs.changes.Load(), time.Now()
		args[0] = s.clock.until(start.Add(min(g.cfg.Timeout, maxLate)))
		reply, err = reserveScript.Run(ctx, g.pipe, names, args...).Slice()
		if err != nil || len(reply) < 2 {
			return began, changes, reply, err
		}
		s.clock.saw(number(reply[1]))
		if len(reply) > 2 {
			return began, changes, reply, nil
		}
	}
	return began, changes, nil, errLate
}

// isStale reports whether a gate that was read at or after sent is stale. It marks
// a gate that has gone back.
func (g *Gate) isStale(ctx context.Context, sku, builtOn, replID string, sent time.Time, epoch, granted int64) (bool, error) {
	s := g.state(sku)
	if s.wentBack(sent, epoch, granted) {
		_, _, _, err := s.send(ctx, nil) // a call without requests marks it, too
		return true, err
	}
	return builtOn == "?" || builtOn != "" && replID != "" && builtOn != replID, nil
}

// outcome decodes one outcome of reserve.lua for the order id.
func outcome(id string, v any) (Reservation, error) {
	switch v := v.(type) {
	case string:
		return Reservation{OrderID: v, Replayed: true}, nil
	case int64:
		if v > 0 {
			return Reservation{OrderID: id, At: time.UnixMilli(v).UTC()}, nil
		}
		if refusal := refusals[v]; refusal != nil {
			return Reservation{}, refusal
		}
	}
	return Reservation{}, fmt.Errorf("reserve.lua: no such outcome: %v", v)
}
