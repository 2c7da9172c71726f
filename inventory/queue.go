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

// WakeChannel is the channel on which reserve.lua publishes a SKU whose queue is no
// longer empty. Its name begins with Config.Prefix. Messages may be lost, so keepers also
// read their queues regularly.
const WakeChannel = "sale:woken"

// A QueuedOrder holds units and waits for the database.
type QueuedOrder struct {
	Entry          string // entry of the queue, shared with other orders of the same batch
	Epoch          int64  // epoch of the gate that accepted the order
	OrderID        string
	Buyer          string
	Quantity       int64
	Key, PaysOrder string // see Request
	Fingerprint    string
	Node           string
	Trace          string
	AcceptedAt     time.Time // time of acceptance on Redis's clock
}

// ReadQueue returns the oldest queued orders of sku, or the orders after the entry named
// after. It returns whole entries, because Ack removes whole entries: at most limit
// orders, but at least one entry. ReadQueue removes nothing.
func (k KeeperGate) ReadQueue(ctx context.Context, sku, after string, limit int64) ([]QueuedOrder, error) {
	start := "-"
	if after != "" {
		start = "(" + after
	}
	fill := &k.state(sku).fill
	room := limit
	var orders []QueuedOrder
	var read, contained int64 // entries that were read, and the orders in them
	for {
		count := fill.entriesFor(room)
		// A raw command, because XRANGE of go-redis returns fields as a map, without
		// their order.
		entries, err := k.pipe.Do(ctx, "XRANGE", k.cfg.Prefix+keys.Queue(sku), start, "+", "COUNT", count).Slice()
		if err != nil {
			return nil, fmt.Errorf("read the queue of %s: %w", sku, err)
		}
		more := int64(len(entries)) == count // the queue may have more entries
		for _, e := range entries {
			id, queued, err := unpackEntry(e)
			if err != nil {
				return nil, fmt.Errorf("read the queue of %s, entry %s: %w", sku, id, err)
			}
			n := int64(len(queued))
			read, contained = read+1, contained+n
			if n > room && len(orders) > 0 {
				more = false
				break
			}
			orders, room, start = append(orders, queued...), room-n, "("+id
		}
		fill.saw(read, contained)
		if !more || room <= 0 {
			return orders, nil
		}
	}
}

// fill is the number of orders per entry of one queue, as last read. It is 1 while buyers
// come one by one, and up to fullEntry in a rush. XRANGE counts entries, so a wrong guess
// would make Redis return far more orders than needed.
type fill struct{ perThousand atomic.Int64 } // orders in 1,000 entries; 0 before the first read

// fullEntry is the guess before the first read: ENTRY in reserve.lua.
const fullEntry = 125

// entriesFor returns the number of entries that are likely to contain the given number of orders.
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
// "epoch" and the epoch. Each further pair of fields is an order id and the order.
func unpackEntry(e any) (id string, orders []QueuedOrder, err error) {
	parts, _ := e.([]any)
	if len(parts) != 2 {
		return "", nil, fmt.Errorf("the entry is malformed: %v", e)
	}
	id, _ = parts[0].(string)
	fields, _ := parts[1].([]any)
	if len(fields) < 2 {
		return id, nil, fmt.Errorf("the entry is malformed: %v", e)
	}
	epoch, at := number(fields[1]), entryTime(id)
	orders = make([]QueuedOrder, len(fields)/2-1)
	for i := range orders {
		order, _ := fields[2*i+2].(string)
		if orders[i], err = unpack(order, fields[2*i+3]); err != nil {
			return id, nil, err
		}
		orders[i].Entry, orders[i].Epoch, orders[i].AcceptedAt = id, epoch, at
	}
	return id, orders, nil
}

// unpack decodes an order that reserve.lua has queued, such as "2 3 6
// 3:ann/k-1node-1print". The numbers are the quantity and the lengths of key, node and
// buyer. Then follow the buyer, the key, the node and the fingerprint. "3:ann/k-1" is the
// order's field in the hash of keys.
func unpack(id string, order any) (QueuedOrder, error) {
	text, _ := order.(string)
	var n [4]int
	for i, separator := range []string{" ", " ", " ", ":"} {
		head, tail, found := strings.Cut(text, separator)
		v, err := strconv.Atoi(head)
		if !found || err != nil || v < 0 {
			return QueuedOrder{}, fmt.Errorf("order %s is malformed: %q", id, order)
		}
		n[i], text = v, tail
	}
	key := n[3] + len("/")
	node := key + n[1]
	body := node + n[2]
	if body > len(text) {
		return QueuedOrder{}, fmt.Errorf("order %s is cut off: %q", id, order)
	}
	q := QueuedOrder{OrderID: id, Quantity: int64(n[0]), Buyer: text[:n[3]], Key: text[key:node], Fingerprint: text[body:]}
	q.Node, q.Trace, _ = strings.Cut(text[node:body], "\n")
	if scoped, pays := strings.CutPrefix(q.Key, " "); pays {
		q.PaysOrder, q.Key, _ = strings.Cut(scoped, " ")
	}
	return q, nil
}

// entryTime returns the time in a stream id, in milliseconds on Redis's clock.
func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n).UTC()
}

// OldestQueued returns, for each SKU, the time at which its oldest queued order was
// accepted, or the zero time for an empty queue. now is the time on the clock of Redis,
// or of one master of a cluster.
func (k KeeperGate) OldestQueued(ctx context.Context, skus ...string) (oldest []time.Time, now time.Time, err error) {
	cmds, err := k.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, sku := range skus {
			p.XRangeN(ctx, k.cfg.Prefix+keys.Queue(sku), "-", "+", 1)
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

// Ack removes decided orders from the queue. It also removes their idempotency keys,
// because a replay finds the row. It releases the units of the orders in release, which
// the database did not accept. orders must be in the order of the queue. An entry stays
// in the queue unless orders contains all of its orders.
//
// Ack returns the number of entries that are left, or -1 if orders is empty. After 0, the
// next order wakes the keeper. Ack can be repeated, even by a keeper that was replaced.
// After an error the outcome is unknown, and the caller must repeat the call.
func (k KeeperGate) Ack(ctx context.Context, sku string, orders []QueuedOrder, release []string) (left int64, err error) {
	if len(orders) == 0 {
		return -1, nil
	}
	args := []any{0}
	var ids []string // order ids of the current entry
	for i, q := range orders {
		ids = append(ids, q.OrderID)
		if i+1 == len(orders) || orders[i+1].Entry != q.Entry {
			args = append(args, q.Entry, strings.Join(ids, " "))
			ids = ids[:0]
		}
	}
	args[0] = len(args) / 2
	args = appendStrings(args, release)
	names := k.named(keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku), keys.Queue(sku), keys.Keys(sku))
	left, err = ackScript.Run(ctx, k.pipe, names, args...).Int64()
	return left, scriptError("acknowledge", sku, err)
}
