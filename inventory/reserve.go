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
	Epoch       int64  // of the sale as the caller knows it; 0 for any. What a gate of another one refuses is ErrEpoch
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

// A Reservation is a yes of the gate.
type Reservation struct {
	OrderID  string    // on a replay that of the first order
	Replayed bool      // the order was made by an earlier request under this key, and is in the queue
	At       time.Time // by Redis's clock; zero on a replay
}

// Reserve takes units for one order and queues it for the database. Callers of
// one SKU share a script call with whoever asks at the same moment.
//
// Errors: a *Refusal for every no; ctx's error when the caller gave up; else
// the outcome is unknown (Redis did not answer), and the order may yet come
// about. A caller that gave up before its request was sent has taken nothing; later,
// the units may be taken, and the order is found under its key.
func (g *Gate) Reserve(ctx context.Context, r Request) (Reservation, error) {
	reservation, err := g.state(r.SKU).group.Do(ctx, "", r)
	if errors.Is(err, coalesce.ErrFull) {
		err = refusals[-3]
	}
	return reservation, err
}

// maxLate is after how long a call of the reserve script does nothing any more,
// from when its batch was made up: a network may deliver it when its callers
// have long been told no by another node.
const maxLate = time.Second

// reserveTries bounds how often a batch is sent. The first call of a node is sent
// twice, for it knows neither the epoch nor Redis's clock; a third time is for a
// gate that was rebuilt meanwhile.
const reserveTries = 4

var errLate = errors.New("the calls came late to Redis, and did nothing")

// A redisClock is what a node knows of Redis's clock: by how much it is ahead of
// the time since the node's start, at least. The answer that told of it has been
// on its way, so Redis's clock is later than that, never earlier: a deadline made
// of it comes too early rather than too late.
type redisClock struct{ ahead atomic.Int64 } // ms; 0: not known yet

var started = time.Now()

// saw takes note of what Redis's clock said, ms since 1970, in an answer that has
// come in just now.
func (c *redisClock) saw(now int64) { c.ahead.Store(now - time.Since(started).Milliseconds() - 1) }

// until is what Redis's clock shows at a time of this process, in ms since 1970,
// or 0 where it is not known: a deadline that has passed.
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
	began, asked, reply, err := s.send(ctx, batch)
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
	// A connection that was made for this very call may have led to another Redis.
	stale := asked.changes != g.replIDs.changes.Load()
	if epoch := number(reply[0]); epoch != 0 && !stale { // the gate is open, and the sale is on
		s.saw(began, version{epoch, number(reply[3]), asked.changes}, number(reply[2]))
	}
	for i, c := range batch {
		c.Answer, c.Err = outcome(c.Q.OrderID, reply[4+i])
		if refusal, is := errors.AsType[*Refusal](c.Err); is {
			c.Err = s.believe(refusal, stale, c.Q.Epoch, asked.epoch)
		}
	}
}

// send calls the reserve script until it has answered a call that came in time
// and under the gate's epoch. It returns when the last call began, and the
// epoch and the changes of Redis that were known then.
func (s *saleState) send(ctx context.Context, batch []*call) (began time.Time, asked version, reply []any, err error) {
	g, start := s.gate, time.Now()
	names := []string{keys.Sale(s.sku), keys.Holds(s.sku), keys.Buyers(s.sku), keys.Queue(s.sku), keys.Keys(s.sku)}
	args := append(make([]any, 0, 6+6*len(batch)), 0, 0, g.cfg.QueueLimit, WakeChannel, s.sku, 0)
	for _, c := range batch {
		r := &c.Q
		// By pointer: each value would be copied to the heap otherwise.
		args = append(args, &r.OrderID, &r.Buyer, &r.Quantity, r.scopedKey(), &r.Fingerprint, r.sender())
	}
	for range reserveTries {
		asked = version{epoch: s.epoch.Load(), changes: g.replIDs.changes.Load()}
		began = time.Now()
		args[0], args[5] = asked.epoch, s.letIn(asked.epoch)
		args[1] = s.clock.until(start.Add(min(g.cfg.Timeout, maxLate)))
		reply, err = reserveScript.Run(ctx, g.pipe, names, args...).Slice()
		if err != nil || len(reply) < 2 {
			return began, asked, reply, err
		}
		s.clock.saw(number(reply[1]))
		if len(reply) > 2 {
			return began, asked, reply, nil
		}
		s.epoch.Store(number(reply[0]))
	}
	return began, asked, nil, errLate
}

// isStale tells whether a gate that was read at or after sent is stale, and marks
// one that has gone back.
func (g *Gate) isStale(ctx context.Context, sku, builtOn string, sent time.Time, epoch, granted int64) (bool, error) {
	s, replID := g.state(sku), g.replID(ctx, sku)
	if s.wentBack(sent, epoch, granted) {
		_, _, _, err := s.send(ctx, nil) // who asks for nothing marks it all the same
		return true, err
	}
	return builtOn == "?" || builtOn != "" && replID != "" && builtOn != replID, nil
}

// believe is what a refusal comes to: it is no answer where the gate may have
// forgotten orders, or where the caller knows the sale under another epoch than
// the gate that was asked.
func (s *saleState) believe(r *Refusal, stale bool, callers, asked int64) error {
	switch {
	case errors.Is(r, ErrStale) || stale && r.answers():
		return &Refusal{Reason: ErrStale, Known: r.Known, Epoch: s.epoch.Load()}
	case callers != 0 && callers != asked && r.answers():
		return &Refusal{Reason: ErrEpoch, Known: r.Known, Epoch: s.epoch.Load()}
	}
	return r
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
