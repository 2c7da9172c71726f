package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
)

var memory = benchmark{
	name:  "memory",
	about: "what an open order takes in Redis, and whether a node's heap grows while it refuses",
	rows: []Row{
		{Item: "10a", Name: "Redis bytes per open order, without a key", Unit: "bytes", Target: atMost(200)},
		{Item: "10b", Name: "Redis bytes per open order, with an Idempotency-Key", Unit: "bytes", Target: atMost(200)},
		// A leak of two bytes a refusal would show.
		{Item: "10c", Name: "growth of a node's heap while it refuses", Unit: "MB", Target: atMost(1)},
	},
	run: runMemory,
}

func runMemory(ctx context.Context, l *lab, rows []Row) error {
	for i, keyed := range []bool{false, true} {
		bytes, err := l.openOrders(ctx, keyed)
		if err != nil {
			return err
		}
		rows[i].Ours = bytes
		rows[i].judge()
	}
	rows[0].Note = "each order by a buyer of its own: an entry each in the holds and in the buyers of the sale"
	rows[1].Note = "in addition a replay key, which Redis drops after 15 minutes"
	if rows[2].Needs = l.missing([]tool{wrkTool}); rows[2].Needs != "" {
		return nil
	}
	return l.heap(ctx, &rows[2])
}

// openOrders reserves orders, takes them off the queue as a keeper does, and
// returns what each of them takes in Redis from then on.
func (l *lab) openOrders(ctx context.Context, keyed bool) (bytesEach float64, err error) {
	db, err := l.openRedis(16)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.closeRedis(db)) }()
	g, sku, err := openGate(ctx, db, inventory.Config{})
	if err != nil {
		return 0, err
	}
	const many = 50_000
	// Once before the count begins: scripts are loaded, keys are there.
	for round, orders := range []int{256, many} {
		before, err := usedMemory(ctx, db)
		if err != nil {
			return 0, err
		}
		var reserving errgroup.Group
		reserving.SetLimit(gateCallers)
		for i := range orders {
			reserving.Go(func() error {
				r := request(sku, fmt.Sprintf("%d%011d", round, i))
				if !keyed {
					r.Key = ""
				}
				_, err := g.Reserve(ctx, r)
				return err
			})
		}
		if err := reserving.Wait(); err != nil {
			return 0, err
		}
		if err := settleAll(ctx, g, sku); err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, db)
		if err != nil {
			return 0, err
		}
		bytesEach = float64(after-before) / float64(orders)
	}
	return bytesEach, nil
}

// settleAll empties the queue.
func settleAll(ctx context.Context, g *inventory.Gate, sku string) error {
	for {
		queue, err := g.Queue(ctx, sku, "", 500)
		if err != nil || len(queue) == 0 {
			return err
		}
		settled := make([]inventory.Settled, len(queue))
		for i, q := range queue {
			settled[i] = inventory.Settled{Entry: q.Entry, OrderID: q.OrderID}
		}
		if err := g.Settle(ctx, sku, 1, settled); err != nil {
			return err
		}
	}
}

// usedMemory is what Redis has allocated, less the buffers of its clients and
// of the log, which come and go.
func usedMemory(ctx context.Context, db *redisDB) (bytes int64, err error) {
	info, err := db.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}
	bytes = infoNumber(info, "used_memory") - infoNumber(info, "mem_clients_normal") - infoNumber(info, "mem_aof_buffer")
	if bytes <= 0 {
		return 0, errors.New("ask Redis for its memory: no used_memory")
	}
	return bytes, nil
}

// heap refuses for a while and compares a node's live heap with before.
func (l *lab) heap(ctx context.Context, row *Row) (err error) {
	ours, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	sale, err := ours.sellOut(ctx, 1000)
	if err != nil {
		return err
	}
	// At first the tokens of the crowd are remembered, buffers and pools grow:
	// that is no growth with traffic.
	for warm := int64(0); warm < 2*crowdSize; {
		_, n, err := ours.refuse(ctx, sale, l.cfg.Seconds)
		if err != nil {
			return err
		}
		warm += n
	}
	before, err := ours.heap(ctx)
	if err != nil {
		return err
	}
	var refused int64
	for range l.cfg.Rounds {
		_, n, err := ours.refuse(ctx, sale, l.cfg.Seconds)
		if err != nil {
			return err
		}
		refused += n
	}
	after, err := ours.heap(ctx)
	if err != nil {
		return err
	}
	row.Ours = max(0, float64(after-before)) / 1e6
	row.Note = fmt.Sprintf("live heap %.2f MB before, %.2f MB after %s refusals", float64(before)/1e6, float64(after)/1e6, figure(float64(refused)))
	row.judge()
	return nil
}

// heap is the node's live heap, bytes. Two collections: what pools keep
// outlives the first.
func (n *node) heap(ctx context.Context) (bytes int64, err error) {
	for range 2 {
		text, err := n.get(ctx, "http://"+n.metrics+"/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return 0, n.logged(err)
		}
		_, rest, found := strings.Cut(text, "# HeapAlloc = ")
		number, _, _ := strings.Cut(rest, "\n")
		if bytes, err = strconv.ParseInt(number, 10, 64); err != nil || !found {
			return 0, errors.New("read a node's heap: no HeapAlloc in its profile")
		}
	}
	return bytes, nil
}
