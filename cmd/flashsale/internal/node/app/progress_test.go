package app

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

func openSQL(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// metric reads one series of the node.
func (n *node) metric(series string) float64 {
	n.t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(n.send("GET", "/metrics", "", "").body)
	if line == nil {
		n.t.Fatalf("metrics: got no series %s, want one", series)
	}
	v, err := strconv.ParseFloat(line[1], 64)
	check.Must(n.t, err)
	return v
}

func (n *node) kept() int { return int(n.metric("flashsale_keeper_skus")) }

// spread creates eight sales of one unit and waits until both nodes keep some of them. It
// returns the SKUs.
func spread(t testing.TB, a, b *node) (skus []string) {
	t.Helper()
	for i := range 8 {
		skus = append(skus, fmt.Sprint("S", i))
		b.put(skus[i], 1, 1, 900)
	}
	check.Eventually(t, "both nodes keep their share", func() bool {
		return a.kept() > 1 && b.kept() > 1 && a.kept()+b.kept() == len(skus)
	})
	return skus
}

// soldAll places an order of each SKU and repeats it until it is accepted. A cancelled unit
// is sold out until it is released.
func soldAll(n *node, skus []string, buyer string) {
	n.t.Helper()
	for _, sku := range skus {
		check.Eventually(n.t, sku+" is sold to "+buyer, func() bool { return n.order(sku, buyer).status == 201 })
	}
}

const aLease = time.Second

func quick(c *Config) {
	c.Node = "one" // a fixed name fixes the assignment of the SKUs
	c.Lease, c.Wait, c.DirectAfter = aLease, 200*time.Millisecond, time.Hour
}

// One of two nodes loses the connection to one of the stores. The other node takes over
// its sales, and sells a unit that a buyer cancels during the outage. The result does not
// depend on the lock store, because a node that can renew its locks may still be unable to
// reach the other stores.
func TestNodeThatLosesOneStore(t *testing.T) {
	for name, tc := range map[string]struct {
		lock  string
		via   func(testing.TB, *servers.Stores) (*servers.Stores, *wire.Wire)
		fault func(*wire.Wire)
	}{
		"MySQL is cut":                    {lockRedis, servertest.SQLVia, (*wire.Wire).Cut},
		"MySQL is silent":                 {lockRedis, servertest.SQLVia, (*wire.Wire).Freeze},
		"Redis is silent, locks in MySQL": {lockMySQL, servertest.RedisVia, (*wire.Wire).Freeze},
		"Redis is cut, locks elsewhere":   {lockZooKeeper, servertest.RedisVia, (*wire.Wire).Cut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Open(t, servers.KindReal)
			via, w := tc.via(t, s)
			elsewhere := lockServers(t, tc.lock)
			with := func(c *Config) { quick(c); c.Lock, c.LockServers = tc.lock, elsewhere }
			a, b := start(t, via, with), start(t, s, func(c *Config) { with(c); c.Node = "two" })
			skus := spread(t, a, b)
			orders := map[string]string{}
			for _, sku := range skus {
				orders[sku] = b.sold(sku, "ann").where()
			}
			tc.fault(w)
			for _, where := range orders {
				b.cancel("ann", where).want(200)
			}
			soldAll(b, skus, "eve")
			check.Eventually(t, "the healthy node keeps all SKUs", func() bool { return b.kept() == len(skus) })
			w.Thaw()
			w.Restore()
			check.Eventually(t, "the other node keeps its share again", func() bool { return a.kept() > 1 && a.kept()+b.kept() == len(skus) })
		})
	}
}

// commitsOfOrders matches the COMMIT after an insert of orders. \x03 is the query command,
// so READ COMMITTED in the settings of a connection does not match.
func commitsOfOrders() func(sent []byte) bool {
	var inserted atomic.Bool
	return func(sent []byte) bool {
		if bytes.Contains(sent, []byte("INSERT INTO `orders`")) {
			inserted.Store(true)
		}
		return bytes.Contains(sent, []byte("\x03COMMIT")) && inserted.Swap(false)
	}
}

// One or two connections of the keepers go silent during a COMMIT. Another node takes over
// their SKUs. The first node continues with its other SKUs, gets the lost SKUs back, and can
// be stopped.
func TestSilentCommit(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := servertest.Open(t, servers.KindReal)
			via, w := servertest.SQLVia(t, s)
			a, b := start(t, via, quick), start(t, s, func(c *Config) { quick(c); c.Node = "two" })
			spread(t, a, b)
			silence := func(prefix string) (skus []string) { // repeats until this node keeps a sale and commits an order of it
				silenced := w.Silence(n, commitsOfOrders())
				check.Eventually(t, "commits go silent", func() bool {
					skus = append(skus, fmt.Sprint(prefix, len(skus)))
					b.put(skus[len(skus)-1], 1, 1, 900)
					a.order(skus[len(skus)-1], "ann")
					return silenced() >= n
				})
				return skus
			}
			skus := silence("R")
			check.Eventually(t, "no order is queued", func() bool {
				return !slices.ContainsFunc(skus, func(sku string) bool { return !b.audit(sku).has(`"queued":0`) })
			})
			skus = nil
			for i := range 8 {
				skus = append(skus, fmt.Sprint("T", i))
				b.put(skus[i], 1, 1, 900)
			}
			soldAll(a, skus, "eve")
			silence("U")
			check.OK(t, a.stop())
		})
	}
}

// A rebuild that takes several leases is not interrupted. By default a slow network delays it.
// With FLASHSALE_TEST_ROWS it reads this number of orders over a fast network.
func TestRebuildLongerThanALease(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	via, w := servertest.RedisVia(t, s)
	n := start(t, via, quick)
	n.put("S", 10_000_000, 10, 900)
	db := openSQL(t, s.SQL)
	many, delay := 60_000, 20*time.Millisecond
	if rows, err := strconv.Atoi(os.Getenv("FLASHSALE_TEST_ROWS")); err == nil {
		many, delay = rows, 0
	}
	if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO orders (id, sku, buyer, quantity, amount, currency, status, request_hash, created_at, expires_at)
		SELECT LOWER(CONCAT(LPAD(HEX(seq),8,'0'),'-0000-7000-8000-000000000000')), 'S', CONCAT('buyer', seq), 1, 1999, 'EUR', 'pending_payment', '0123456789abcdef0123456789abcdef', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3) + INTERVAL 1 DAY
		FROM seq_1_to_%d`, many)); err != nil {
		t.Fatalf("insert %d orders: got error %v, want none", many, err)
	}
	check.Must(t, check.Err(db.ExecContext(t.Context(), "UPDATE sales SET sold = ?", many)))
	w.Delay(wire.Both, delay, 0)
	rdb, attempt := openRedis(t, s.RedisURL), 0
	// On a busy machine a node may lose its lease, so the test tries several times. If rebuilds
	// were interrupted after one lease, every attempt would fail.
	check.Eventually(t, "a rebuild of two leases or more is not interrupted", func() bool {
		attempt++
		rebuilt, stalled := n.metric("flashsale_keeper_rebuilds_total"), n.metric("flashsale_keeper_stalled_total")
		check.Must(t, rdb.FlushAll(t.Context()).Err())
		began := time.Now()
		n.sold("S", fmt.Sprint("buyer-", attempt))
		took := time.Since(began)
		t.Logf("sold again after %v", took)
		return took >= 2*aLease && n.metric("flashsale_keeper_stalled_total") == stalled && n.metric("flashsale_keeper_rebuilds_total") == rebuilt+1
	})
}
