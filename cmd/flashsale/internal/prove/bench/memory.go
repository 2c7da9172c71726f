package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/inventory"
)

var memory = benchmark{
	name:  "memory",
	about: "what an open order takes in Redis",
	rows: []Row{{
		Item: "10", Name: "Redis bytes per open order", Unit: "bytes", Target: atMost(200),
		Note: "each order by a buyer of its own: an entry each in the holds and in the buyers of the sale; Redis knows its key only until it is durable",
	}},
	run: func(ctx context.Context, l *bench, rows []Row) error {
		bytes, err := l.openOrders(ctx)
		rows[0].set(bytes)
		return err
	},
}

// openOrders reserves orders, takes them off the queue as a keeper does, and
// returns what each of them takes in Redis from then on.
func (l *bench) openOrders(ctx context.Context) (bytesEach float64, err error) {
	db := l.openRedis(16)
	g, sku, err := openGate(ctx, db, inventory.Config{})
	if err != nil {
		return 0, err
	}
	// Once before the count begins: scripts are loaded, keys are there.
	for _, orders := range []int64{256, 50_000} {
		before, err := usedMemory(ctx, db)
		if err != nil {
			return 0, err
		}
		last := l.orders.Load() + orders
		reserved, err := l.call(ctx, gateCallers, 1, func() bool { return l.orders.Load() < last }, func(ctx context.Context, n int) error {
			_, err := g.Reserve(ctx, request(sku, fmt.Sprintf("%012d", n)))
			return err
		})
		if err == nil {
			err = settleAll(ctx, g, sku)
		}
		if err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, db)
		if err != nil {
			return 0, err
		}
		bytesEach = float64(after-before) / float64(reserved)
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
		acked := make([]inventory.Acked, len(queue))
		for i, q := range queue {
			acked[i] = inventory.Acked{Entry: q.Entry, OrderID: q.OrderID}
		}
		if _, err := g.Ack(ctx, sku, acked); err != nil {
			return err
		}
	}
}

// usedMemory is what Redis has allocated, less the buffers of its clients and
// of the log, which come and go.
func usedMemory(ctx context.Context, db *redis.Client) (bytes int64, err error) {
	info, err := db.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}
	bytes = int64(lab.Number(info, "used_memory:") - lab.Number(info, "mem_clients_normal:") - lab.Number(info, "mem_aof_buffer:"))
	if bytes <= 0 {
		return 0, errors.New("ask Redis for its memory: no used_memory")
	}
	return bytes, nil
}
