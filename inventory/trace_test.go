package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// The trace of a request is in the queue and in the Batch of its script call.
func TestTraceCrossesTheQueue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		sku := newSKU()
		batches := make(chan Batch, 2)
		g := newGate(rdb, Config{OnBatch: func(b Batch) { batches <- b }})
		open(t, g, sku, 10, 1)
		traced, plain := order(sku, "a", "b1"), order(sku, "b", "b2")
		traced.Node, traced.Trace, plain.Node = "node 1", trace, "node 2"
		for _, r := range []Request{traced, plain} {
			check.Must(t, check.Err(g.Reserve(t.Context(), r)))
		}
		queue, err := g.ReadQueue(t.Context(), sku, "", 10)
		check.Must(t, err)
		if len(queue) != 2 || queue[0].Node != "node 1" || queue[0].Trace != trace || queue[1].Node != "node 2" || queue[1].Trace != "" {
			t.Errorf("queue: got %+v, want node 1 with its trace and node 2 without one", queue)
		}
		for _, want := range [][]string{{trace}, nil} {
			b := <-batches
			if !slices.Equal(b.Traces, want) || b.SKU != sku || b.Requests != 1 || b.Began.IsZero() || b.Took <= 0 || b.Err != nil {
				t.Errorf("traced batch: got %+v, want traces %v", b, want)
			}
		}
	})
}

// A request without a trace allocates nothing for it.
func TestSenderWithoutTrace(t *testing.T) {
	r := Request{Node: "n"}
	if r.sender() != &r.Node || testing.AllocsPerRun(100, func() { r.sender() }) != 0 {
		t.Error("sender of a request without a trace: got a copy or an allocation, want neither")
	}
	r.Trace = strings.Repeat("x", maxTrace+1)
	if r.sender() != &r.Node {
		t.Error("trace above maxTrace: it is queued, want it dropped")
	}
}

func TestOldestQueued(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, busy, idle := newGate(rdb, patient), newSKU(), newSKU()
		open(t, g, busy, 10, 1)
		var first time.Time
		for i := range 3 {
			r, err := g.Reserve(t.Context(), order(busy, fmt.Sprint("o", i), fmt.Sprint("b", i)))
			check.Must(t, err)
			if i == 0 {
				first = r.AcceptedAt
			}
		}
		oldest, now, err := g.OldestQueued(t.Context(), idle, busy)
		check.Must(t, err)
		if !oldest[0].IsZero() || !oldest[1].Equal(first) || now.Before(first) || now.Sub(first) > time.Minute {
			t.Errorf("oldest queued orders: got %v at %v, want no time and %v", oldest, now, first)
		}
	})
}
