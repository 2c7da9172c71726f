package inventory

import (
	"context"
	"fmt"
	"time"

	"flashsale/inventory/internal/keys"
)

// A Request asks for Quantity units of SKU, the whole quantity or nothing.
type Request struct {
	OrderID     string // chosen by the caller, unique: the same id never takes twice
	SKU         string
	Buyer       string
	Quantity    int64
	Key         string // idempotency key, scoped to buyer and SKU; "" for none
	Fingerprint string // of the body: the same key with another one is ErrMismatch
	Node        string // who waits for the order to be durable; no line break in it
	Trace       string // what the caller's trace goes on from, such as a W3C traceparent; "" for none
}

// mostTrace is the longest Trace, in bytes, that is carried through the queue.
const mostTrace = 64

// sender is Node and Trace in one, as they are queued: what is not traced
// costs neither the script nor the queue anything.
func (r *Request) sender() *string {
	if r.Trace == "" || len(r.Trace) > mostTrace {
		return &r.Node
	}
	both := r.Node + "\n" + r.Trace
	return &both
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
	Replayed bool      // the order was made by an earlier request under this key
	At       time.Time // by Redis's clock; zero on a replay
}

// Reserve takes units for one order and queues it for the database. Callers of
// one SKU share a script call with whoever asks at the same moment.
//
// Errors: a *Refusal for every no; ctx's error when the caller gave up; else
// the outcome is unknown (Redis did not answer), and the order may yet come
// about. A caller that gave up before its request was sent has taken nothing.
func (g *Gate) Reserve(ctx context.Context, r Request) (Reservation, error) {
	return g.turnstile(r.SKU).reserve(ctx, r)
}

// reserveBatch is the one script call behind Reserve. It leaves an answer in
// every call, whatever happens.
func (t *turnstile) reserveBatch(batch []*call) {
	g := t.gate
	names := []string{
		keys.Sale(t.sku), keys.Holds(t.sku), keys.Buyers(t.sku), keys.Queue(t.sku), keys.Replays(t.sku), keys.OlderReplays(t.sku),
	}
	args := append(make([]any, 0, 5+6*len(batch)),
		t.epoch.Load(), g.cfg.QueueBound, int64(g.cfg.ReplayFor/time.Second), WakeChannel, t.sku)
	for _, c := range batch {
		r := &c.request
		// By pointer: each value would be copied to the heap otherwise.
		args = append(args, &r.OrderID, &r.Buyer, &r.Quantity, &r.Key, &r.Fingerprint, r.sender())
	}

	// The batch runs under its own context: one caller that gives up must not
	// take its neighbours along.
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Timeout)
	defer cancel()
	began := time.Now()
	reply, err := reserveScript.Run(ctx, g.rdb, names, args...).Slice()
	if err == nil && len(reply) == 1 { // another epoch than we believed, nothing done: ask again under that
		epoch, _ := reply[0].(int64)
		t.epoch.Store(epoch)
		args[0] = epoch
		began = time.Now()
		reply, err = reserveScript.Run(ctx, g.rdb, names, args...).Slice()
	}
	if err == nil && len(reply) != 3+len(batch) {
		err = fmt.Errorf("reserve.lua answered %d values to %d requests", len(reply), len(batch))
	}
	if g.cfg.OnBatch != nil && len(batch) > 0 {
		b := Batch{SKU: t.sku, Requests: len(batch), Began: began, Took: time.Since(began), Err: err}
		for _, c := range batch {
			if c.request.Trace != "" {
				b.Traces = append(b.Traces, c.request.Trace)
			}
		}
		g.cfg.OnBatch(b)
	}
	if err != nil {
		err = fmt.Errorf("reserve %s: %w", t.sku, err)
		for _, c := range batch {
			c.answer(Reservation{}, err)
		}
		return
	}
	head := [3]int64{}
	for i := range head {
		head[i], _ = reply[i].(int64)
	}
	if head[0] != 0 { // the gate is open
		t.epoch.Store(head[0])
		t.saw(began, version{epoch: head[0], granted: head[2]}, head[1])
	}
	for i, c := range batch {
		c.answer(Outcome(c.request.OrderID, reply[3+i]))
	}
}

// Outcome decodes one outcome of reserve.lua for the order id, also where
// another script (see package broken) answers as that one does.
func Outcome(id string, v any) (Reservation, error) {
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
