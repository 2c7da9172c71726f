package inventory

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// TestMain fails if a goroutine is left at the end.
func TestMain(m *testing.M) {
	servertest.Prepare()
	goleak.VerifyTestMain(m)
}

// patient is a Config with a timeout that suffices on a busy machine.
var patient = Config{Timeout: time.Minute}

// onEachRedis runs test on the embedded Redis and on a real Redis.
func onEachRedis(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) { test(t, servertest.Connect(t, r.URL)) })
}

var skus atomic.Int64

// newSKU returns a SKU that no other test uses.
func newSKU() string { return "S" + strconv.FormatInt(skus.Add(1), 10) }

// first is the epoch of the gate that open builds.
const first int64 = 1

// terms returns the terms of a sale that is open now.
func terms(total, perBuyer int64) Terms {
	now := time.Now().Truncate(time.Millisecond)
	return Terms{Total: total, UnitsPerBuyer: perBuyer, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour)}
}

// open opens a sale of total units, none of which is sold.
func open(t testing.TB, g KeeperGate, sku string, total, perBuyer int64) {
	t.Helper()
	install(t, g, sku, 0, truth{Terms: terms(total, perBuyer), Available: total})
}

// A truth is the state of a sale in the database.
type truth struct {
	Terms
	Available int64
	Holds     []Hold
	Buyers    map[string]int64
}

// full returns s with no units sold.
func (s truth) full() truth {
	s.Available = s.Total
	return s
}

// draft returns an empty draft.
func draft(sku string) *Draft { return &Draft{SKU: sku, Fence: 1, Attempt: attempts.Add(1)} }

var attempts atomic.Int64

// build stages s and installs it over the gate of epoch was.
func build(ctx context.Context, g KeeperGate, sku string, was, epoch int64, s truth) (bool, error) {
	d := draft(sku)
	if err := g.Stage(ctx, d, Changes{Holds: s.Holds, Buyers: s.Buyers}); err != nil {
		return false, err
	}
	return g.Install(ctx, d, was, View{
		Summary: Summary{Epoch: epoch, Terms: s.Terms, Available: s.Available}, Holds: int64(len(s.Holds)), Buyers: int64(len(s.Buyers)),
	})
}

// install builds the gate that follows the gate of epoch was.
func install(t testing.TB, g KeeperGate, sku string, was int64, s truth) {
	t.Helper()
	if ok, err := build(t.Context(), g, sku, was, was+1, s); !ok || err != nil {
		t.Fatalf("install %s: got %v, error %v, want true", sku, ok, err)
	}
}

// newGate returns a gate with the methods of sellers and of keepers.
func newGate(rdb redis.UniversalClient, cfg Config) KeeperGate { return KeeperGate{New(rdb, cfg)} }

// order returns a request for one unit without a key.
func order(sku, id, buyer string) Request {
	return Request{OrderID: id, SKU: sku, Buyer: buyer, Quantity: 1, Node: "n"}
}

// reserve calls Reserve and fails the test if the gate does not accept the order.
func reserve(t testing.TB, g KeeperGate, r Request) Reservation {
	t.Helper()
	got, err := g.Reserve(t.Context(), r)
	if err != nil {
		t.Fatalf("reserve %s: got error %v, want none", r.OrderID, err)
	}
	return got
}

// inspect calls Inspect and fails the test on an error.
func inspect(t testing.TB, g KeeperGate, sku string) View {
	t.Helper()
	view, err := g.Inspect(t.Context(), sku)
	check.Must(t, err)
	return view
}

// state returns the content of Redis for a SKU as text. Two equal texts mean that nothing
// has changed.
func state(t rapid.TB, rdb *redis.Client, sku string) string {
	t.Helper()
	var b strings.Builder
	for _, key := range []string{"", ":holds", ":buyers", ":keys"} {
		all, err := rdb.HGetAll(context.Background(), "sale:{"+sku+"}"+key).Result()
		check.Must(t, err)
		delete(all, "resume_at")
		delete(all, "built_on")
		delete(all, "buyers")
		b.WriteString(key + " " + sorted(all) + "\n")
	}
	queue, err := rdb.Do(context.Background(), "XRANGE", "sale:{"+sku+"}:queue", "-", "+").Slice()
	check.Must(t, err)
	for _, e := range queue {
		entry := e.([]any)
		b.WriteString(entry[0].(string))
		for i, field := range entry[1].([]any) {
			if i%2 == 0 {
				b.WriteString(" " + field.(string))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
