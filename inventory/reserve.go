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
	OrderID     string // chosen by the caller, unique, without spaces; a repeated id takes no more units
	SKU         string
	Buyer       string
	Quantity    int64  // at least 1
	Key         string // idempotency key within buyer and SKU, or ""; the gate forgets it after Ack
	PaysOrder   string // order that the units are for, if not OrderID; Key is then the payment's reference
	Fingerprint string // of the request body; the same key with another fingerprint is ErrMismatch
	Node        string // node that waits for the order to be durable; no line breaks
	Trace       string // the caller's trace, such as a W3C traceparent, or ""
}

// maxTrace is the length of the longest trace that is queued, in bytes.
const maxTrace = 64

// sender returns Node and Trace as one value for the queue. A pointer avoids a copy when
// there is no trace.
func (r *Request) sender() *string {
	if r.Trace == "" || len(r.Trace) > maxTrace {
		return &r.Node
	}
	both := r.Node + "\n" + r.Trace
	return &both
}

// scopedKey returns the key under which the gate remembers the request. The reference of
// a payment begins with a space, unlike any client's key.
func (r *Request) scopedKey() *string {
	if r.PaysOrder == "" {
		return &r.Key
	}
	scoped := " " + r.PaysOrder + " " + r.Key
	return &scoped
}

// A Batch describes one call of the reserve script.
type Batch struct {
	SKU      string
	Requests int       // number of requests
	Began    time.Time // on this process's clock
	Took     time.Duration
	Err      error    // the error of the call, or nil
	Traces   []string // traces of the requests, without empty traces
}

// A Reservation is the gate's answer to a Request.
type Reservation struct {
	OrderID    string    // on a replay, the id of the first order with this key
	Replayed   bool      // an earlier request with this key made the order, which is still queued
	AcceptedAt time.Time // time of acceptance on Redis's clock; zero on a replay
	Epoch      int64     // epoch of the gate that answered; the only field set with a *Refusal
}

// Reserve takes units for one order and queues the order for the database. Concurrent
// calls for one SKU share script calls.
//
// Reserve returns a *Refusal if the gate refuses the order. If the context ends before
// the request is sent, Reserve returns the context's error, and no units are taken. After
// any other error the outcome is unknown: the gate may still accept the order, and a
// retry with the same key then finds it.
func (g *Gate) Reserve(ctx context.Context, r Request) (Reservation, error) {
	reservation, err := g.state(r.SKU).group.Do(ctx, "", r)
	if errors.Is(err, coalesce.ErrFull) {
		err = refusals[-3]
	}
	return reservation, err
}

// maxAhead is the time after which a call of the reserve script does nothing (MAX_AHEAD in
// reserve.lua). By then another node may have refused the same requests.
const maxAhead = time.Second

// reserveTries is the largest number of calls for one batch. The first batch for a SKU is
// sent twice, because the node does not know Redis's clock yet. A third call may follow
// if Redis's clock was set back.
const reserveTries = 3

// A redisClock estimates Redis's clock from the last reply of the script. A reply takes
// time to arrive, so the estimate may be behind that clock but is never ahead of it. A
// deadline computed from it may be too early, but not too late.
type redisClock struct{ ahead atomic.Int64 } // Redis's clock minus time since started, ms; 0 if unknown

var started = time.Now()

// saw records Redis's clock, in ms since 1970, from a reply that has just arrived.
func (c *redisClock) saw(now int64) { c.ahead.Store(now - time.Since(started).Milliseconds() - 1) }

// until converts a time of this process to Redis's clock, in ms since 1970. It returns
// 0, which is always past, if Redis's clock is unknown.
func (c *redisClock) until(at time.Time) int64 {
	ahead := c.ahead.Load()
	if ahead == 0 {
		return 0
	}
	return ahead + at.Sub(started).Milliseconds()
}

// reserveBatch makes the script call of a batch and sets Answer or Err of every caller.
func (s *saleState) reserveBatch(ctx context.Context, batch []*call) {
	g := s.gate
	began, changes, reply, err := s.send(ctx, batch)
	if err == nil && len(reply) != 4+len(batch) {
		err = fmt.Errorf("reserve.lua returned %d values for %d requests, want 4 and one per request", len(reply), len(batch))
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
	// On a new connection, the reply may come from another Redis than the remembered
	// state.
	if known && changes == g.changes.Load() {
		s.saw(began, version{epoch, number(reply[3]), changes}, available)
	}
	for i, c := range batch {
		c.Answer, c.Err = outcome(c.Q.OrderID, reply[4+i])
		c.Answer.Epoch = epoch
	}
}

// send calls the reserve script until a call arrives before its deadline. It also
// returns the time at which the last call began, and Gate.changes at that time.
func (s *saleState) send(ctx context.Context, batch []*call) (began time.Time, changes int64, reply []any, err error) {
	g, start := s.gate, time.Now()
	names := g.named(keys.Sale(s.sku), keys.Holds(s.sku), keys.Buyers(s.sku), keys.Queue(s.sku), keys.Keys(s.sku))
	seen := s.latest()
	args := append(make([]any, 0, 6+6*len(batch)), 0, g.cfg.QueueLimit, g.cfg.Prefix+WakeChannel, s.sku, seen.epoch, seen.granted)
	for _, c := range batch {
		r := &c.Q
		// Pointers avoid a copy of each value to the heap.
		args = append(args, &r.OrderID, &r.Buyer, &r.Quantity, r.scopedKey(), &r.Fingerprint, r.sender())
	}
	for range reserveTries {
		changes, began = g.changes.Load(), time.Now()
		args[0] = s.clock.until(start.Add(min(g.cfg.Timeout, maxAhead)))
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

// outcome decodes the outcome that reserve.lua returned for an order.
func outcome(id string, v any) (Reservation, error) {
	switch v := v.(type) {
	case string:
		return Reservation{OrderID: v, Replayed: true}, nil
	case int64:
		if v > 0 {
			return Reservation{OrderID: id, AcceptedAt: time.UnixMilli(v).UTC()}, nil
		}
		if refusal := refusals[v]; refusal != nil {
			return Reservation{}, refusal
		}
	}
	return Reservation{}, fmt.Errorf("reserve.lua returned an unknown outcome: %v", v)
}
