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

// Every test closes what it opens: a goroutine left at the end is a failure.
func TestMain(m *testing.M) {
	servertest.Prepare()
	goleak.VerifyTestMain(m)
}

// patient is a Config whose timeout is long enough for a starved Redis.
var patient = Config{Timeout: time.Minute}

// onEachRedis runs a test on the embedded Redis and on a real one.
func onEachRedis(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) { test(t, servertest.Connect(t, r.URL)) })
}

var skus atomic.Int64

// newSKU is one that no other test has used.
func newSKU() string { return "S" + strconv.FormatInt(skus.Add(1), 10) }

// first is the epoch of a sale that these tests have opened.
const first int64 = 1

// terms of a sale that is open now.
func terms(total, perBuyer int64) Terms {
	now := time.Now().Truncate(time.Millisecond)
	return Terms{Total: total, PerBuyer: perBuyer, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour)}
}

// open opens a sale of total units, none of them sold.
func open(t testing.TB, g Keeping, sku string, total, perBuyer int64) {
	t.Helper()
	install(t, g, sku, 0, truth{Terms: terms(total, perBuyer), Available: total})
}

// A truth is what the database says, all of it.
type truth struct {
	Terms
	Available int64
	Holds     []Hold
	Buyers    map[string]int64
}

// draft is one that nobody has staged anything for.
func draft(sku string) *Draft { return &Draft{SKU: sku, Fence: 1, Attempt: attempts.Add(1)} }

var attempts atomic.Int64

// build stages what the database says, and installs it over the gate of epoch was.
func build(ctx context.Context, g Keeping, sku string, was, epoch int64, s truth) (bool, error) {
	d := draft(sku)
	if err := g.Stage(ctx, d, Changes{Holds: s.Holds, Buyers: s.Buyers}); err != nil {
		return false, err
	}
	return g.Install(ctx, d, was, View{
		Summary: Summary{Epoch: epoch, Terms: s.Terms, Available: s.Available}, Holds: int64(len(s.Holds)), Buyers: int64(len(s.Buyers)),
	})
}

// install builds the gate after that of epoch was.
func install(t testing.TB, g Keeping, sku string, was int64, s truth) {
	t.Helper()
	if ok, err := build(t.Context(), g, sku, was, was+1, s); !ok || err != nil {
		t.Fatalf("install %s: %v, %v", sku, ok, err)
	}
}

// newGate returns a gate with both of its faces.
func newGate(rdb redis.UniversalClient, cfg Config) Keeping { return Keeping{New(rdb, cfg)} }

// order is a request for one unit without a key.
func order(sku, id, buyer string) Request {
	return Request{OrderID: id, SKU: sku, Buyer: buyer, Quantity: 1, Node: "n"}
}

// reserve is Reserve where a yes is certain.
func reserve(t testing.TB, g Keeping, r Request) Reservation {
	t.Helper()
	got, err := g.Reserve(t.Context(), r)
	if err != nil {
		t.Fatalf("reserve %s: %v", r.OrderID, err)
	}
	return got
}

// look is Inspect where an answer is certain.
func look(t testing.TB, g Keeping, sku string) View {
	t.Helper()
	view, err := g.Inspect(t.Context(), sku)
	check.Must(t, err)
	return view
}

// state is all that Redis keeps of a SKU, as text: two
// equal ones mean that nothing has changed.
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
