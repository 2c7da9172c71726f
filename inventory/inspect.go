package inventory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// A Summary is the state of a gate without its orders.
type Summary struct {
	Exists, Open  bool // Open is false if the gate is missing, or shut for a rebuild
	Epoch         int64
	Terms         Terms
	Available     int64
	QueuedOrders  int64 // orders in the queue, as the gate counts them
	GrantedOrders int64 // orders accepted since the gate was built
	Stale         bool  // Redis may have lost writes of the gate: see replid.go. Set only by Summaries
	Promoted      bool  // this Redis was promoted from a replica of the master on which the gate was built. Set only by Summaries
}

// A View is the state of a gate at one instant.
type View struct {
	Summary
	Holds, Buyers int64 // orders that hold units; buyers who have had an order

	Orders       []QueuedOrder    // queued orders
	QueueTooLong bool             // the queue was too long to read, and Orders is empty
	HasHold      map[string]bool  // order id → whether the requested order has a hold
	Units        map[string]int64 // requested buyer → units held or paid
}

// QueuedUnits returns the units of the orders in the queue.
func (v *View) QueuedUnits() (units int64) {
	for _, q := range v.Orders {
		units += q.Quantity
	}
	return units
}

// summaryFields are the fields that summaryOf decodes. inspect.lua reads the same fields.
var summaryFields = []string{"state", "epoch", "available", "total", "per_buyer", "opens_at", "closes_at", "queued", "granted", "built_on"}

func summaryOf(sale []any) Summary {
	state, exists := sale[0].(string)
	var n [9]int64
	for i := 1; i < len(n); i++ {
		n[i] = number(sale[i])
	}
	terms := Terms{Total: n[3], UnitsPerBuyer: n[4], OpensAt: time.UnixMilli(n[5]).UTC(), ClosesAt: time.UnixMilli(n[6]).UTC()}
	return Summary{Exists: exists, Open: state == "open", Epoch: n[1], Terms: terms, Available: n[2], QueuedOrders: n[7], GrantedOrders: n[8]}
}

// Inspect reads the gate of sku and its whole queue in one step. If there is no gate,
// Exists is false, and the error is nil.
func (g *Gate) Inspect(ctx context.Context, sku string) (View, error) {
	return g.inspect(ctx, sku, math.MaxInt32, nil, nil)
}

// maxTally is the length of the longest queue that Tally reads. Redis needs 2 ms for it.
const maxTally = 2000

// Tally reads the gate of sku and the state of the given orders and buyers in one step.
// It takes at most 1,000 order ids and 1,000 buyers. A queue of more than 2,000 orders is
// not read, and QueueTooLong is set.
func (k KeeperGate) Tally(ctx context.Context, sku string, ids, buyers []string) (View, error) {
	return k.inspect(ctx, sku, maxTally, ids, buyers)
}

func (g *Gate) inspect(ctx context.Context, sku string, limit int, ids, buyers []string) (View, error) {
	args := appendStrings([]any{limit, len(ids)}, slices.Concat(ids, buyers))
	names := g.named(keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku), keys.Queue(sku))
	reply, err := inspectScript.Run(ctx, g.rdb, names, args...).Slice()
	if err != nil {
		return View{}, fmt.Errorf("inspect the gate of %s: %w", sku, err)
	}
	if len(reply) < 6 {
		return View{}, nil
	}
	v := View{
		Summary: summaryOf(reply[0].([]any)), Holds: number(reply[1]), Buyers: number(reply[2]),
		HasHold: map[string]bool{}, Units: map[string]int64{},
	}
	entries, whole := reply[3].([]any)
	v.QueueTooLong = !whole
	for _, e := range entries {
		id, orders, err := unpackEntry(e)
		if err != nil {
			return View{}, fmt.Errorf("inspect the queue of %s, entry %s: %w", sku, id, err)
		}
		v.Orders = append(v.Orders, orders...)
	}
	holds, _ := reply[4].([]any)
	for i, hold := range holds {
		v.HasHold[ids[i]] = hold != nil
	}
	units, _ := reply[5].([]any)
	for i, n := range units {
		v.Units[buyers[i]] = number(n)
	}
	return v, nil
}

// Summaries reads the gates of many SKUs in one pipeline. If a gate has accepted fewer
// orders than this node has seen, Summaries marks the gate as stale for all nodes.
func (g *Gate) Summaries(ctx context.Context, skus ...string) ([]Summary, error) {
	if len(skus) == 0 {
		return nil, nil
	}
	sent := time.Now()
	cmds, err := g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, sku := range skus {
			p.HMGet(ctx, g.cfg.Prefix+keys.Sale(sku), summaryFields...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the summaries of %d gates: %w", len(skus), err)
	}
	summaries := make([]Summary, len(skus))
	for i, sku := range skus {
		sale := cmds[i].(*redis.SliceCmd).Val()
		s := summaryOf(sale)
		builtOn, _ := sale[len(sale)-1].(string)
		id := g.replID(ctx, sku)
		s.Promoted = builtOn != "" && builtOn == id.before
		if s.Open {
			s.Stale = builtOn == "?" || builtOn != "" && id.now != "" && builtOn != id.now
			if state := g.state(sku); state.wentBack(sent, s.Epoch, s.GrantedOrders) {
				s.Stale = true
				if _, _, _, err := state.send(ctx, nil); err != nil { // a call without requests marks the gate
					return nil, fmt.Errorf("mark the gate of %s stale: %w", sku, err)
				}
			}
		}
		summaries[i] = s
	}
	return summaries, nil
}

// ScanHolds returns a page of the ids of the orders that hold units at the gate of sku,
// and the cursor of the next page. The first page has cursor 0, and next is 0 after the
// last page. An order that holds units during the whole scan is returned at least once.
func (k KeeperGate) ScanHolds(ctx context.Context, sku string, cursor uint64) (ids []string, next uint64, err error) {
	return k.scan(ctx, k.cfg.Prefix+keys.Holds(sku), cursor, 500)
}

// ScanBuyers returns a page of the buyers who have units at the gate of sku, like
// ScanHolds. Its pages are smaller, because each buyer is compared with all of the
// buyer's orders.
func (k KeeperGate) ScanBuyers(ctx context.Context, sku string, cursor uint64) (buyers []string, next uint64, err error) {
	return k.scan(ctx, k.cfg.Prefix+keys.Buyers(sku), cursor, 100)
}

// scan returns a page of about count fields of a hash, without fields whose value is 0.
func (k KeeperGate) scan(ctx context.Context, key string, cursor uint64, count int64) (names []string, next uint64, err error) {
	page, next, err := k.rdb.HScan(ctx, key, cursor, "", count).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read a page of %s: %w", key, err)
	}
	for pair := range slices.Chunk(page, 2) {
		if pair[1] != "0" {
			names = append(names, pair[0])
		}
	}
	return names, next, nil
}

// FindHold returns the hold of an order, and the SKU of the gate that has the hold. It asks
// the gates of all given SKUs. If no gate has a hold of the order, ok is false.
func (g *Gate) FindHold(ctx context.Context, orderID string, skus ...string) (sku string, h Hold, ok bool, err error) {
	cmds, err := g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, sku := range skus {
			p.HGet(ctx, g.cfg.Prefix+keys.Holds(sku), orderID)
		}
		return nil
	})
	for i, cmd := range cmds {
		hold, failed := cmd.(*redis.StringCmd).Result()
		if part := strings.SplitN(hold, " ", 3); len(part) == 3 {
			at := time.UnixMilli(number(part[1])).UTC()
			return skus[i], Hold{OrderID: orderID, Buyer: part[2], Quantity: number(part[0]), AcceptedAt: at}, true, nil
		}
		if errors.Is(err, redis.Nil) { // err is the error of the first failed command
			err = failed
		}
	}
	if err == nil || errors.Is(err, redis.Nil) {
		return "", Hold{}, false, nil
	}
	return "", Hold{}, false, fmt.Errorf("read the hold of %s: %w", orderID, err)
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

// A Hold describes the units that the gate has set aside for an open order.
type Hold struct {
	OrderID    string
	Buyer      string
	Quantity   int64
	AcceptedAt time.Time // time of acceptance on Redis's clock
}
