package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// BenchmarkCommit compares Commit with a plain multi-row insert of the same number of rows. The
// two alternate, batch by batch.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{100, 500} {
		b.Run(fmt.Sprint("batch-", size), func(b *testing.B) {
			store := openStore(b, servertest.OpenSQL(b, servers.KindReal))
			ctx := context.Background()
			if _, err := store.PutSale(ctx, kit.Sale("S", orders.MaxTotal, 100)); err != nil {
				b.Fatalf("put the sale: got error %v, want none", err)
			}
			kept, err := store.TakeOver(ctx, "S")
			check.Must(b, err)
			var ours, bare time.Duration
			b.ResetTimer()
			for range b.N {
				batch := freshBatch(size)
				start := time.Now()
				if _, err := store.Commit(ctx, "S", kept.Fence, batch); err != nil {
					b.Fatalf("commit the orders: got error %v, want none", err)
				}
				ours += time.Since(start)
				statement, args := bareInsert(freshBatch(size))
				start = time.Now()
				if _, err := store.sql.ExecContext(ctx, statement, args...); err != nil {
					b.Fatalf("insert the orders: got error %v, want none", err)
				}
				bare += time.Since(start)
			}
			b.ReportMetric(float64(size*b.N)/ours.Seconds(), "orders/s")
			b.ReportMetric(float64(bare)/float64(ours), "of-bare-insert")
		})
	}
}

func freshBatch(size int) []inventory.QueuedOrder {
	batch := make([]inventory.QueuedOrder, size)
	for i := range batch {
		id := uuid.Must(uuid.NewV7()).String()
		batch[i] = inventory.QueuedOrder{
			OrderID: id, Buyer: "buyer-" + id, Quantity: 1, Key: "key-" + id,
			Fingerprint: strings.Repeat("f", 32), AcceptedAt: time.Now().UTC(),
		}
	}
	return batch
}

// bareInsert returns one statement that inserts the batch, with all columns that Commit sets.
func bareInsert(batch []inventory.QueuedOrder) (string, []any) {
	var sql strings.Builder
	sql.WriteString("INSERT INTO orders (id, sku, buyer, quantity, amount, currency, status, reason, idempotency_key, request_hash, created_at, expires_at) VALUES ")
	args := make([]any, 0, 12*len(batch))
	for i, q := range batch {
		if i > 0 {
			sql.WriteByte(',')
		}
		sql.WriteString("(?,?,?,?,?,?,?,?,?,?,?,?)")
		args = append(args, q.OrderID, "S", q.Buyer, q.Quantity, 1999, "EUR", "pending_payment", "", q.Key, q.Fingerprint, q.AcceptedAt, q.AcceptedAt)
	}
	return sql.String(), args
}
