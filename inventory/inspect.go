package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// A View is the gate at one instant.
type View struct {
	Open      bool // false: missing, or shut for a rebuild
	Exists    bool
	Epoch     int64
	Total     int64
	Available int64
	Holds     int64            // how many orders hold units
	Queued    map[string]int64 // order id → units, not yet taken off the queue
}

// Inspect reads the gate of sku, all of it in one step. A SKU without a gate is a
// View that does not exist, not an error.
func (g *Gate) Inspect(ctx context.Context, sku string) (View, error) {
	reply, err := inspectScript.Run(ctx, g.rdb, []string{keys.Sale(sku), keys.Queue(sku), keys.Holds(sku)}).Slice()
	if err != nil {
		return View{}, fmt.Errorf("look at gate of %s: %w", sku, err)
	}
	if len(reply) < 5 {
		return View{}, nil
	}
	view := View{
		Exists: true, Open: reply[0] == "open",
		Epoch: number(reply[1]), Total: number(reply[2]), Available: number(reply[3]), Holds: number(reply[4]),
		Queued: map[string]int64{},
	}
	for i := 5; i+1 < len(reply); i += 2 {
		id, _ := reply[i].(string)
		view.Queued[id] = number(reply[i+1])
	}
	return view, nil
}

// A Summary holds the part of a gate that shows whether its keeper has work.
type Summary struct {
	Exists, Open bool
	Epoch        int64
	Terms        Terms
	Available    int64
	Queued       int64 // orders
	Granted      int64 // orders accepted since the gate was built
	Stale        bool  // the gate may have forgotten orders: see replid.go
	Promoted     bool  // the gate's Redis was promoted: it followed the master that the gate was built on
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
			p.HMGet(ctx, keys.Sale(sku), "state", "epoch", "available", "total", "per_buyer", "opens_at", "closes_at", "queued", "granted", "built_on")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("summary at %d gates: %w", len(skus), err)
	}
	summaries := make([]Summary, len(skus))
	for i := range summaries {
		sale := cmds[i].(*redis.SliceCmd).Val()
		state, exists := sale[0].(string)
		var n [9]int64
		for j := 1; j < len(n); j++ {
			n[j] = number(sale[j])
		}
		summaries[i] = Summary{
			Exists: exists, Open: state == "open", Epoch: n[1], Available: n[2],
			Terms: Terms{
				Total: n[3], PerBuyer: n[4],
				OpensAt: time.UnixMilli(n[5]).UTC(), ClosesAt: time.UnixMilli(n[6]).UTC(),
			},
			Queued: n[7], Granted: n[8],
		}
		builtOn, _ := sale[9].(string)
		id := g.replID(ctx, skus[i])
		summaries[i].Promoted = builtOn != "" && builtOn == id.before
		if summaries[i].Open {
			summaries[i].Stale, err = g.isStale(ctx, skus[i], builtOn, id.now, sent, n[1], n[8])
		}
		if err != nil {
			return nil, fmt.Errorf("mark the gate of %s stale: %w", skus[i], err)
		}
	}
	return summaries, nil
}

// Held returns the buyer and units of an order that holds units at the gate of
// sku, or of the first of several SKUs that has it; false where none does.
func (g *Gate) Held(ctx context.Context, orderID string, skus ...string) (sku string, h Hold, ok bool, err error) {
	cmds, err := g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, sku := range skus {
			p.HGet(ctx, keys.Holds(sku), orderID)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", Hold{}, false, fmt.Errorf("look for the hold of %s: %w", orderID, err)
	}
	for _, cmd := range cmds { // the pipeline's own error is only the first one's
		if e := cmd.Err(); e != nil && !errors.Is(e, redis.Nil) {
			err = e
		}
	}
	for i, cmd := range cmds {
		if part := strings.SplitN(cmd.(*redis.StringCmd).Val(), " ", 3); len(part) == 3 {
			at := time.UnixMilli(number(part[1])).UTC()
			return skus[i], Hold{OrderID: orderID, Buyer: part[2], Quantity: number(part[0]), At: at}, true, nil
		}
	}
	return "", Hold{}, false, nil
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

// A Hold is an open order: its units are taken and not yet paid.
type Hold struct {
	OrderID  string
	Buyer    string
	Quantity int64
	At       time.Time // when it was reserved
}
