package app

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// asked returns the number of calls of a command that Redis has counted.
func asked(t *testing.T, s *servers.Stores, command string) int {
	t.Helper()
	stats, err := openRedis(t, s.RedisURL).Info(t.Context(), "commandstats").Result()
	check.Must(t, err)
	found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	check.Must(t, err)
	return n
}

// many creates count small sales and returns their SKUs.
func (n *node) many(count int) (skus []string) {
	n.t.Helper()
	for i := range count {
		skus = append(skus, fmt.Sprint("S", i))
		n.put(skus[i], 10, 9, 900).ok()
	}
	return skus
}

// The public list of sales and each sale are read once a second, whatever the number of
// requests. The shared responses contain no headers of one caller.
func TestSalesAreCachedForASecond(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	n := start(t, s, func(c *Config) { c.LimitIP = parseLimit(t, "100000/s:100000") })
	const sales, asks = 20, 1000
	n.many(sales)
	for _, path := range []string{"/v1/sales", "/v1/sales/S7"} {
		before, began := asked(t, s, "hmget"), time.Now()
		for range asks {
			a := n.send("GET", path, "", "")
			if a.status != 200 || a.header.Get("Cache-Control") != "public, max-age=1" || a.header.Get("RateLimit") != "" || a.header.Get("RateLimit-Policy") != "" {
				t.Fatalf("sales at %s: got %d %v %s, want 200, cacheable, without limits", path, a.status, a.header, a.body)
			}
		}
		// Each keeper also reads its sale, once a second or more often.
		limit := 5 * sales * int(time.Since(began)/time.Second+2)
		if got := asked(t, s, "hmget") - before; got > limit {
			t.Errorf("%d requests of %s: got %d Redis commands, want at most %d", asks, path, got, limit)
		}
	}
	n.put("S7", 11, 9, 900).ok()
	for _, path := range []string{"/v1/sales", "/v1/sales/S7"} { // an operator sees their change at once
		n.send("GET", path, "", "").contains(`"total":11`)
	}
	check.Eventually(t, "an order shows within a second or two", func() bool {
		n.order("S7", "ann")
		return n.send("GET", "/v1/sales/S7", "", "").has(`"available":10`)
	})
	n.send("GET", "/v1/sales/none", "", "").want(404)
}

// An order id contains a hash of its SKU, so an unknown id costs at most one look-up instead
// of one per gate.
func TestUnknownOrderCostsOneLookup(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	n := start(t, s, func(c *Config) { c.LimitIP = parseLimit(t, "1000/s:1000") })
	n.many(20)
	ann := n.token("ann", false)
	before := asked(t, s, "hget")
	const asks = 100
	for i := range asks {
		id := fmt.Sprintf("01a1f945-8d3e-761d-bbcb-7d1dab60%04x", i)
		n.send([]string{"GET", "POST"}[i%2], "/v1/orders/"+id+[]string{"", "/cancel"}[i%2], ann, "").want(404)
	}
	if got := asked(t, s, "hget") - before; got > 2*asks {
		t.Errorf("%d requests for unknown orders: got %d Redis commands, want at most %d", asks, got, 2*asks)
	}
}

// skuHash returns the hash of a SKU, with which the ids of its orders end.
func skuHash(sku string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, sku)
	return h.Sum32()>>16 ^ h.Sum32()&0xffff
}

// A queued order is found by its id alone, even if two SKUs have the same hash.
func TestQueuedOrderIsFoundByID(t *testing.T) {
	t.Parallel()
	s, w := servertest.SQLVia(t, servertest.Open(t, servers.KindReal))
	n := start(t, s, nil)
	twin := ""
	for i := 0; twin == ""; i++ {
		if sku := fmt.Sprint("twin-", i); skuHash(sku) == skuHash("S") {
			twin = sku
		}
	}
	ann := n.token("ann", false)
	skus := []string{"S", twin, "other"}
	for _, sku := range skus {
		n.put(sku, 10, 9, 900)
	}
	held := w.HoldAll(func(sent []byte) bool {
		return bytes.Contains(bytes.ToUpper(sent), []byte("INSERT INTO ORDERS")) || bytes.Contains(sent, []byte("INSERT INTO `orders`"))
	})
	defer held.Pass()
	uuid7 := regexp.MustCompile(`^/v1/orders/([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{8}([0-9a-f]{4}))\?`)
	for _, sku := range skus {
		a := n.send("POST", "/v1/orders", ann, `{"sku":"`+sku+`","quantity":1}`, "Prefer: respond-async")
		id := uuid7.FindStringSubmatch(a.where())
		if a.status != 202 || id == nil || id[2] != fmt.Sprintf("%04x", skuHash(sku)) {
			t.Fatalf("queued order of %s: got %d %v %s, want 202 with an id that contains the SKU's hash", sku, a.status, a.header, a.body)
		}
		n.send("GET", "/v1/orders/"+id[1], ann, "").want(200).contains(`"status":"reserved"`, `"sku":"`+sku+`"`)
		n.send("POST", "/v1/orders/"+id[1]+"/pay", ann, `{"payment_ref":"r"}`).want(409, "in_progress")
		n.send("GET", "/v1/orders/"+id[1], n.token("bob", false), "").want(404)
	}
}

// A client that has closed only its sending side receives a status of the contract, not the
// 499 of the logs.
func TestHalfClosedConnectionIsAnswered(t *testing.T) {
	s, w := servertest.RedisVia(t, servertest.Open(t, servers.KindReal))
	n := start(t, s, nil)
	n.put("S", 10, 9, 900)
	w.Freeze()
	defer w.Thaw()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://"))
	check.Must(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(check.Deadline(t))
	body := `{"sku":"S","quantity":1}`
	_, _ = fmt.Fprintf(conn, "POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		n.token("ann", false), len(body), body)
	_ = conn.(*net.TCPConn).CloseWrite()
	raw, err := io.ReadAll(conn)
	check.Must(t, err)
	status, _, _ := strings.Cut(string(raw), "\r\n")
	if status != "HTTP/1.1 503 Service Unavailable" {
		t.Errorf("answer on a half-closed connection: got %s, want 503", raw)
	}
}

// Whatever the rate of requests to /readyz, the stores are checked at most ten times a second.
func TestReadyzSharesChecks(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	n := start(t, s, nil)
	before, began := asked(t, s, "ping"), time.Now()
	const asks = 400
	for range asks {
		res, err := http.Get(n.URL() + "/readyz")
		check.Must(t, err)
		_ = res.Body.Close()
	}
	limit := int(time.Since(began)/(100*time.Millisecond)) + 5 // 5 for the connections of the test
	if got := asked(t, s, "ping") - before; got > limit {
		t.Errorf("%d requests of /readyz: got %d pings at Redis in %v, want at most %d", asks, got, time.Since(began), limit)
	}
}
