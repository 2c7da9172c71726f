package inventory

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// WakeChannel is where reserve.lua publishes a SKU whose queue was empty and
// no longer is. A message may be lost: keepers look by themselves as well.
const WakeChannel = "sale:woken"

// A Queued order holds units and waits for the database.
type Queued struct {
	Entry       string // its entry in the queue, shared with other orders of the same batch
	Epoch       int64  // epoch of the gate that accepted the order
	OrderID     string
	Buyer       string
	Quantity    int64
	Key, Pays   string // see Request
	Fingerprint string
	Node        string
	Trace       string
	At          time.Time // when it was reserved, by Redis's clock
}

// Queue reads the oldest queued orders of sku, or those after the entry of an
// order read before. It returns whole entries, at most limit orders but at least one
// entry, because Ack removes whole entries (see ack.lua). Queue removes nothing.
func (k Keeping) Queue(ctx context.Context, sku, after string, limit int64) ([]Queued, error) {
	start := "-"
	if after != "" {
		start = "(" + after
	}
	fill := &k.state(sku).fill
	room := limit
	var orders []Queued
	var seen, held int64 // entries, and the orders in them
	for {
		count := fill.entriesFor(room)
		// Raw: the client would make a map of an entry's fields, without their order.
		entries, err := k.pipe.Do(ctx, "XRANGE", keys.Queue(sku), start, "+", "COUNT", count).Slice()
		if err != nil {
			return nil, fmt.Errorf("read queue of %s: %w", sku, err)
		}
		more := int64(len(entries)) == count // there may be
		for _, e := range entries {
			id, its, err := unpackEntry(e)
			if err != nil {
				return nil, fmt.Errorf("queue of %s, entry %s: %w", sku, id, err)
			}
			n := int64(len(its))
			seen, held = seen+1, held+n
			if n > room && len(orders) > 0 {
				more = false
				break
			}
			orders, room, start = append(orders, its...), room-n, "("+id
		}
		fill.saw(seen, held)
		if !more || room <= 0 {
			return orders, nil
		}
	}
}

// fill is how many orders the entries of one queue held when they were last
// read: 1 while buyers come one by one, up to fullEntry in a rush. XRANGE counts
// entries, and one that brought far more orders than are wanted would cost
// Redis as much more.
type fill struct{ perThousand atomic.Int64 } // orders in 1,000 entries; 0 before the first read

// fullEntry is ENTRY in reserve.lua, for a guess before the first read.
const fullEntry = 125

// entriesFor is how many entries are likely to hold so many orders.
func (f *fill) entriesFor(orders int64) int64 {
	per := f.perThousand.Load()
	if per == 0 {
		per = fullEntry * 1000
	}
	return max(orders*1000/per, 1)
}

func (f *fill) saw(entries, orders int64) {
	if orders > 0 {
		f.perThousand.Store(orders * 1000 / entries)
	}
}

// unpackEntry decodes an entry that reserve.lua has queued. The first two fields are
// "epoch" and the gate's epoch. Each further pair of fields is the id of an order and
// the rest of the order.
func unpackEntry(e any) (id string, orders []Queued, err error) {
	parts, _ := e.([]any)
	if len(parts) != 2 {
		return "", nil, fmt.Errorf("malformed: %v", e)
	}
	id, _ = parts[0].(string)
	fields, _ := parts[1].([]any)
	if len(fields) < 2 {
		return id, nil, fmt.Errorf("malformed: %v", e)
	}
	epoch, at := number(fields[1]), entryTime(id)
	orders = make([]Queued, len(fields)/2-1)
	for i := range orders {
		order, _ := fields[2*i+2].(string)
		if orders[i], err = unpack(order, fields[2*i+3]); err != nil {
			return id, nil, err
		}
		orders[i].Entry, orders[i].Epoch, orders[i].At = id, epoch, at
	}
	return id, orders, nil
}

// unpack takes apart what reserve.lua puts into an order's field: "2 3 6 3:ann/k-1node-1print",
// which are the quantity, the lengths of key, node and buyer, and then those, and the
// fingerprint. From the buyer's length to the key it is a field of the keys' hash.
func unpack(id string, rest any) (Queued, error) {
	text, _ := rest.(string)
	var n [4]int
	for i, ends := range []string{" ", " ", " ", ":"} {
		head, tail, found := strings.Cut(text, ends)
		v, err := strconv.Atoi(head)
		if !found || err != nil || v < 0 {
			return Queued{}, fmt.Errorf("order %s: malformed: %q", id, rest)
		}
		n[i], text = v, tail
	}
	key := n[3] + len("/")
	node := key + n[1]
	body := node + n[2]
	if body > len(text) {
		return Queued{}, fmt.Errorf("order %s: cut off: %q", id, rest)
	}
	q := Queued{OrderID: id, Quantity: int64(n[0]), Buyer: text[:n[3]], Key: text[key:node], Fingerprint: text[body:]}
	q.Node, q.Trace, _ = strings.Cut(text[node:body], "\n")
	if scoped, pays := strings.CutPrefix(q.Key, " "); pays {
		q.Pays, q.Key, _ = strings.Cut(scoped, " ")
	}
	return q, nil
}

// entryTime is the first half of a stream id: milliseconds by Redis's clock.
func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n).UTC()
}

// OldestQueued returns the time at which the oldest order in the queue of each SKU was
// reserved, or the zero time if the queue is empty. now is the time on the clock of Redis,
// or of one master of a cluster.
func (k Keeping) OldestQueued(ctx context.Context, skus ...string) (oldest []time.Time, now time.Time, err error) {
	cmds, err := k.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, sku := range skus {
			p.XRangeN(ctx, keys.Queue(sku), "-", "+", 1)
		}
		p.Time(ctx)
		return nil
	})
	if err != nil {
		return nil, now, fmt.Errorf("read the heads of %d queues: %w", len(skus), err)
	}
	oldest = make([]time.Time, len(skus))
	for i := range oldest {
		for _, entry := range cmds[i].(*redis.XMessageSliceCmd).Val() {
			oldest[i] = entryTime(entry.ID)
		}
	}
	return oldest, cmds[len(skus)].(*redis.TimeCmd).Val(), nil
}

// Ack removes decided orders from the queue, and forgets their idempotency keys, because
// the database knows both. It releases the units of the orders in release, which hold
// nothing in the database. The orders are in the order of the queue. An entry stays in
// the queue unless all of its orders are among them. Ack returns the number of entries
// that are left, or -1 if there are no orders. After 0 the next order wakes the keeper.
// It can be repeated, also by a keeper that was replaced. After an error the outcome is
// unknown, and the caller repeats the call.
func (k Keeping) Ack(ctx context.Context, sku string, orders []Queued, release []string) (left int64, err error) {
	if len(orders) == 0 {
		return -1, nil
	}
	args := []any{0}
	var ids []string // of the orders of an entry
	for i, q := range orders {
		ids = append(ids, q.OrderID)
		if i+1 == len(orders) || orders[i+1].Entry != q.Entry {
			args = append(args, q.Entry, strings.Join(ids, " "))
			ids = ids[:0]
		}
	}
	args[0] = len(args) / 2
	args = appendStrings(args, release)
	names := []string{keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku), keys.Queue(sku), keys.Keys(sku)}
	left, err = ackScript.Run(ctx, k.pipe, names, args...).Int64()
	return left, scriptError("acknowledge", sku, err)
}
