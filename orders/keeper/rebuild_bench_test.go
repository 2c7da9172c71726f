package keeper_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// BenchmarkRebuild measures how long the gate of a sale with 100,000 open orders is shut during
// a rebuild.
func BenchmarkRebuild(b *testing.B) {
	const n = 100_000
	s := servertest.Open(b, servers.KindReal)
	p := bare.Open(b, s, kit.Sale("S", orders.MaxTotal, 100))
	ids := make([]inventory.QueuedOrder, 0, 1000)
	for range n / cap(ids) {
		ids = ids[:0]
		for range cap(ids) {
			id := uuid.Must(uuid.NewV7()).String()
			ids = append(ids, inventory.QueuedOrder{
				OrderID: id, Buyer: "buyer-" + id[24:], Quantity: 1, Key: "key-" + id[24:], Fingerprint: strings.Repeat("f", 32), AcceptedAt: time.Now().UTC(),
			})
		}
		sale, err := p.Store.Sale(b.Context(), "S")
		check.Must(b, err)
		for batch := range slices.Chunk(ids, 500) {
			if _, err := p.Store.Commit(b.Context(), "S", sale.Fence, batch); err != nil {
				b.Fatalf("commit the orders: got error %v, want none", err)
			}
		}
	}
	k := p.Keeper(b, "S")
	shut := &shutGate{Gate: p.Gate}
	k.Use(p.Store, shut)
	b.ResetTimer()
	for range b.N {
		check.Must(b, k.RebuildGate(b.Context()))
	}
	if view, err := p.Gate.Inspect(b.Context(), "S"); err != nil || view.Holds != n {
		b.Fatalf("rebuilt gate: got %d holds, want %d (error %v)", view.Holds, n, err)
	}
	b.ReportMetric(float64(shut.time.Milliseconds())/float64(b.N), "ms-shut/op")
	b.ReportMetric(float64(shut.install.Milliseconds())/float64(b.N), "ms-install/op")
}

// A shutGate measures the time for which the gate is shut.
type shutGate struct {
	keeper.Gate
	since         time.Time
	time, install time.Duration
}

func (g *shutGate) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	g.since = time.Now()
	return g.Gate.BeginRebuild(ctx, sku, epoch)
}

func (g *shutGate) Install(ctx context.Context, d *inventory.Draft, was int64, v inventory.View) (bool, error) {
	start := time.Now()
	opened, err := g.Gate.Install(ctx, d, was, v)
	g.install += time.Since(start)
	if opened {
		g.time += time.Since(g.since)
	}
	if err == nil && !opened {
		err = fmt.Errorf("install of the gate of %s: got no error, but it was not opened", d.SKU)
	}
	return opened, err
}
