package inventory

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest/check"
)

// reserveAtOnce makes n orders of one unit with one script call.
func reserveAtOnce(t testing.TB, g KeeperGate, sku string, n int) {
	t.Helper()
	batch := make([]*call, n)
	for i := range batch {
		id := newSKU() // any unique id
		batch[i] = &call{Q: order(sku, id, "buyer-"+id)}
	}
	g.state(sku).reserveBatch(t.Context(), batch)
	for _, c := range batch {
		check.Must(t, c.Err)
	}
}

// sizes returns the number of orders in each entry.
func sizes(queue []QueuedOrder) (n []int) {
	for i, q := range queue {
		if i == 0 || q.Entry != queue[i-1].Entry {
			n = append(n, 0)
		}
		n[len(n)-1]++
	}
	return n
}

// The orders of one call share entries of at most 125 orders.
func TestOrdersShareEntries(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for n, want := range map[int][]int{1: {1}, 124: {124}, 125: {125}, 126: {125, 1}, 256: {125, 125, 6}} {
			g, sku := newGate(rdb, patient), newSKU()
			open(t, g, sku, 1000, 1)
			reserveAtOnce(t, g, sku, n)
			queue, err := g.ReadQueue(t.Context(), sku, "", 1000)
			check.Must(t, err)
			if got := sizes(queue); !slices.Equal(got, want) {
				t.Errorf("queue of %d orders: got entries of %v orders, want %v", n, got, want)
			}
			if summary, err := g.Summaries(t.Context(), sku); err != nil || summary[0].QueuedOrders != int64(n) {
				t.Errorf("queued: got %+v, error %v, want %d", summary, err, n)
			}
		}
	})
}

// The number of orders in an entry is unknown before the first read. After it, ReadQueue
// needs one read for each page, and reads little more than it returns.
func TestQueueReadsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const limit = 150
		for _, size := range []int{1, 3, 60, 125} {
			var reads, orders int // calls of XRANGE, and the orders that they returned
			g, sku := newGate(hooked(t, rdb, func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				err := next(ctx, cmd)
				if cmd, ok := cmd.(*redis.Cmd); ok && cmd.Name() == "xrange" {
					reads++
					for _, e := range cmd.Val().([]any) {
						orders += len(e.([]any)[1].([]any))/2 - 1 // an entry contains the epoch and then the orders
					}
				}
				return err
			}), patient), newSKU()
			open(t, g, sku, 10_000, 1)
			for n := 0; n < 3*limit; n += size {
				reserveAtOnce(t, g, sku, size)
			}
			var after string
			for page, maxReads := range []int{3, 2} { // largest numbers of reads
				reads, orders = 0, 0
				queue, err := g.ReadQueue(t.Context(), sku, after, limit)
				check.Must(t, err)
				if len(queue) != limit/size*size || reads > maxReads || orders > len(queue)+size {
					t.Errorf("queue with entries of %d orders, page %d: got %d orders after reading %d in %d reads, want %d orders in at most %d reads",
						size, page, len(queue), orders, reads, limit/size*size, maxReads)
				}
				after = queue[len(queue)-1].Entry
			}
		}
	})
}

// A promoted replica issues an entry id again, for other orders. Ack leaves these orders
// in the queue, but still releases units.
func TestAckKeepsAnEntryOfOtherOrders(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 10, 1)
		reserveAtOnce(t, g, sku, 3)
		queue, err := g.ReadQueue(t.Context(), sku, "", 10)
		check.Must(t, err)
		fields := []string{"epoch", "1"}
		for _, q := range queue {
			fields = append(fields, q.OrderID, "1 0 0 1:b/p")
		}
		rdb.Del(t.Context(), keys.Queue(sku))
		fields = append(fields, "one more", "1 0 0 1:b/p")
		check.Must(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Queue(sku), ID: queue[0].Entry, Values: fields}).Err())
		check.Must(t, check.Err(g.Ack(t.Context(), sku, queue, []string{queue[0].OrderID})))
		if view := inspect(t, g, sku); len(view.Orders) != 4 || view.Holds != 2 || view.Available != 8 {
			t.Errorf("queue after the ack: got %d orders, want 4: %+v", len(view.Orders), view)
		}
	})
}

// An entry that cannot be decoded is an error with the entry's id. Its orders are not
// skipped.
func TestMalformedEntry(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb, patient)
		for _, value := range []string{"", "1", "1 0 0 1", "1 0 0 1:b", "1 0 0 2:b/", "1 1 0 1:b/", "1 -1 0 1:b/k", "x 0 0 1:b/"} {
			sku := newSKU()
			id, err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Queue(sku), Values: []string{"epoch", "1", "a", "1 0 0 1:b/", "o", value}}).Result()
			check.Must(t, err)
			if queue, err := g.ReadQueue(t.Context(), sku, "", 10); err == nil || !strings.Contains(err.Error(), sku+", entry "+id+": order o") {
				t.Errorf("malformed entry %q: got queue %+v, error %v, want an error that names the entry and the order", value, queue, err)
			}
		}
		for _, e := range []any{nil, "e", []any{"1-0"}} {
			if _, orders, err := unpackEntry(e); err == nil {
				t.Errorf("unpack entry %v: got orders %v, want an error", e, orders)
			}
		}
	})
}
