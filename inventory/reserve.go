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
	OrderID     string // chosen by the caller, unique: a repeated id takes no more units
	SKU         string
	Buyer       string
	Quantity    int64
	Key         string // idempotency key, scoped to buyer and SKU; "" for none. Known until Ack
	Pays        string // the order whose units these are, if it is another order: Key is then the reference of its payment, separate from all other keys
	Fingerprint string // of the body: the same key with another fingerprint is ErrMismatch
	Node        string // the node that waits for the order to be durable; contains no line break
	Trace       string // the caller's trace, such as a W3C traceparent; "" for none
}

// maxTrace is the longest Trace, in bytes, that is carried through the queue.
const maxTrace = 64

// sender returns Node and Trace as one value, as they are queued. Without a trace it
// costs nothing more than Node alone.
func (r *Request) sender() *string {
	if r.Trace == "" || len(r.Trace) > maxTrace {
		return &r.Node
	}
	both := r.Node + "\n" + r.Trace
	return &both
}

// scopedKey returns the key under which the gate remembers the request. A payment's
// reference begins with a space there, and a client's key does not.
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
	Began    time.Time // on this process's clock
	Took     time.Duration
	Err      error    // why the script did not answer, or nil
	Traces   []string // traces of the requests, without empty ones
}

// A Reservation is the gate's answer to a Request.
type Reservation struct {
	OrderID  string    // id of the order; on a replay, of the first order
	Replayed bool      // an earlier request with this key made the order, and the order is in the queue
	At       time.Time // time of acceptance on Redis's clock; zero on a replay
	Epoch    int64     // epoch of the gate that answered; the only field that is set with a *Refusal
}

// Reserve takes units for one order and queues it for the database. Calls for
// one SKU that arrive at the same moment share a script call.
//
// Errors: a *Refusal if the gate refuses the order; the context's error if the context
// ended first. After any other error the outcome is unknown, because Redis did not
// answer. The gate may still accept the order, and a retry with the same key then finds
// it. If the context ended before the request was sent, no units were taken.
func (g *Gate) Reserve(ctx context.Context, r Request) (Reservation, error) {
	reservation, err := g.state(r.SKU).group.Do(ctx, "", r)
	if errors.Is(err, coalesce.ErrFull) {
		err = refusals[-3]
	}
	return reservation, err
}

// maxLate bounds the age of a batch: a call of the reserve script that reaches Redis
// later does nothing. By then another node may have refused the same requests. LATE in
// reserve.lua is the same duration.
const maxLate = time.Second

// reserveTries bounds how often a batch is sent. The first call of a node is sent twice,
// because the node does not know Redis's clock yet. The third try is for the case that
// Redis's clock was set back.
const reserveTries = 3

// A redisClock estimates Redis's clock. It holds a lower bound of the difference between
// that clock and the time since the node's start, taken from the last answer of the
// script. It is a lower bound because an answer takes time to arrive. A deadline that
// is derived from it may be too early, but not too late.
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

// reserveBatch makes the one script call behind Reserve. It always sets the answer or the
// error of every call. Its context ends after Config.Timeout.
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
	// If the call opened a new connection, the answer may come from another Redis than
	// the one that is remembered.
	if known && changes == g.changes.Load() {
		s.saw(began, version{epoch, number(reply[3]), changes}, available)
	}
	for i, c := range batch {
		c.Answer, c.Err = outcome(c.Q.OrderID, reply[4+i])
		c.Answer.Epoch = epoch
	}
}

// send calls the reserve script until a call arrives before its deadline. It returns the
// time at which the last call began, and the number of changes of Redis known then.
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
		changes, began = g.changes.Load(), time.Now()
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
	return began, changes, nil, ErrLate
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
