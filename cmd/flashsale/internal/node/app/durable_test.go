package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
)

// stalling returns real stores. stall blocks all writes and syncs of the database's redo
// log, as on a failing disk, until kill and restart. There is no binary log, so other
// connections can read rows that are not synced yet.
func stalling(t *testing.T) (s *servers.Stores, stall, kill, restart func()) {
	t.Helper()
	s = servertest.Open(t, servers.KindReal)
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc: ", err)
	}
	dir := t.TempDir()
	shim, trigger := filepath.Join(dir, "slowlog.so"), filepath.Join(dir, "stall")
	if out, err := exec.CommandContext(t.Context(), gcc, "-shared", "-fPIC", "-O2", "-o", shim, "testdata/slowlog.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("compile the shim slowlog.c: got error %v, want none:\n%s", err, out)
	}
	m := ownMySQL(t, s, servers.MySQLConfig{ExtraArgs: []string{"--skip-log-bin"}, Env: []string{"SLOWLOG=" + trigger, "LD_PRELOAD=" + shim}})
	stall = func() { check.Must(t, os.WriteFile(trigger, nil, 0o600)) }
	return s, stall, m.Kill, func() {
		check.Must(t, os.Remove(trigger))
		check.Must(t, m.Restart(context.WithoutCancel(t.Context())))
	}
}

// A promise is a positive response that was sent while the log was blocked. A later GET of
// where must contain must.
type promise struct{ text, buyer, where, must string }

type promises struct {
	mu   sync.Mutex
	all  []promise
	over bool
}

func (c *promises) add(a promise) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && !slices.ContainsFunc(c.all, func(b promise) bool { return a.text == b.text && a.buyer == b.buyer }) {
		c.all = append(c.all, a)
	}
}

// check fails the test for each promise, because nothing was durable. It also reports the
// promises that were lost.
func (c *promises) check(t *testing.T, n *node) {
	t.Helper()
	for _, a := range c.all {
		t.Errorf("order of %s while the log was blocked: got answer %q, want none", a.buyer, a.text)
		check.Eventually(t, "the order can be read", func() bool { return n.send("GET", a.where, n.token(a.buyer, false), "").status != 503 })
		n.send("GET", a.where, n.token(a.buyer, false), "").contains(a.must)
	}
}

// stalled is the time for which the log is blocked. It exceeds all timeouts of requests and
// the keeper's timeout for a commit.
const stalled = 8 * time.Second

// untilKilled repeats the calls while the log is blocked, then kills the database.
func (c *promises) untilKilled(kill func(), calls ...func()) {
	end := make(chan struct{})
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					call()
				}
			}
		})
	}
	time.AfterFunc(stalled, func() { close(end) })
	<-end
	kill()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	all.Wait()
}

// While the database cannot sync its log, no response reports an accepted order, a payment
// or a cancellation: not the first response, a replay, a GET or a list.
func TestAcceptanceIsDurable(t *testing.T) {
	t.Parallel()
	s, stall, kill, restart := stalling(t)
	brief := func(c *Config) { c.Wait = time.Second } // the test repeats the order after each wait
	nodes := []*node{start(t, s, brief), start(t, s, brief)}
	n := nodes[0]
	n.put("S", 100, 10, 900)
	where := map[string]string{}
	for _, buyer := range []string{"payer", "canceller"} {
		where[buyer] = n.sold("S", buyer).where()
	}
	n.audited("S", `"queued":0,"sold":2`)
	var early promises
	do := func(n *node, buyer, what, body, wants string) func() {
		return func() {
			path, method := where[buyer], "GET"
			if what != "" {
				path, method = path+"/"+what, "POST"
			}
			if a := n.send(method, path, n.token(buyer, false), body); a.status == 200 && a.has(wants) {
				early.add(promise{fmt.Sprintf("%s: %s", what, wants), buyer, where[buyer], wants})
			}
		}
	}
	stall()
	var calls []func()
	for _, n := range nodes {
		const paid, cancelled = `"status":"paid"`, `"status":"cancelled"`
		calls = append(calls,
			do(n, "payer", "pay", `{"payment_ref":"r"}`, paid), do(n, "payer", "", "", paid),
			do(n, "canceller", "cancel", "", cancelled), do(n, "canceller", "", "", cancelled),
			func() {
				a := n.order("S", "ann")
				if id := a.where(); a.status == 201 {
					early.add(promise{"201", "ann", id, `"pending_payment"`})
				} else if a.status == 202 {
					if a := n.send("GET", id, n.token("ann", false), ""); a.has(`"pending_payment"`) {
						early.add(promise{"GET of a 202: pending_payment", "ann", id, `"pending_payment"`})
					}
				}
			},
			func() {
				for _, buyer := range []string{"payer", "canceller", "ann"} {
					a := n.send("GET", "/v1/orders", n.token(buyer, false), "")
					if a.has(paid) || a.has(cancelled) || buyer == "ann" && a.has("pending_payment") {
						early.add(promise{"list: " + a.body, buyer, "/v1/orders", a.body[len(a.body)/2:]})
					}
				}
			},
		)
	}
	early.untilKilled(kill, calls...)
	restart()
	early.check(t, n)
	check.Eventually(t, "ann's order is found under its key", func() bool { return n.order("S", "ann").status == 201 })
}

// A response that rests on something that was only read waits for a barrier. If the barrier
// fails, it is 503. A response to the caller's own write needs no barrier. This holds with a
// keeper and in direct mode.
func TestReadsWaitForBarrier(t *testing.T) {
	t.Parallel()
	s, toMySQL := servertest.SQLVia(t, servertest.Open(t, servers.KindReal))
	s, toRedis := servertest.RedisVia(t, s)
	n := start(t, s, func(c *Config) { c.Lease, c.Wait, c.DirectAfter = 2*time.Second, time.Second, 200*time.Millisecond })
	n.put("S", 100, 10, 900)
	where := map[string]string{}
	var lost atomic.Bool // lose the responses to all barriers
	toMySQL.LoseAnswers(1_000_000, func(sent []byte) bool { return lost.Load() && bytes.Contains(sent, []byte("barrier = barrier + 1")) })
	pay := func(buyer, ref string) answer { return n.pay(buyer, where[buyer], ref) }
	cancel := func(buyer string) answer { return n.cancel(buyer, where[buyer]) }
	// A response to the caller's own write needs no barrier. A repetition would need one, so each
	// attempt has an order of its own.
	key := 0
	own := func(buyer string, status int, write func() answer) {
		check.Eventually(t, "a response without a barrier to "+buyer, func() bool {
			key++
			lost.Store(false)
			where[buyer] = n.orderBy("S", buyer, fmt.Sprint("own-", key)).want(201).where()
			lost.Store(true)
			return write().status == status
		})
	}
	own("payer", 200, func() answer { return pay("payer", "r") })
	own("canceller", 200, func() answer { return cancel("canceller") })
	own("late", 200, func() answer { return cancel("late") })
	place := func(buyer string) func() answer {
		return func() answer { return n.orderBy("S", buyer, fmt.Sprint("without-", key)) }
	}
	own("other", 201, place("other"))
	// The gate no longer has the key, so the replay is queued and the keeper finds its order.
	// A 202 is allowed, because it promises nothing.
	lost.Store(false)
	n.pay("queued", n.sold("S", "queued").where(), "q").want(200)
	lost.Store(true)
	if a := n.order("S", "queued"); a.status != 503 && a.status != 202 {
		t.Errorf("replay of an order behind the barrier: got %d %s, want 503 or 202", a.status, a.body)
	}
	read := func(subject, path string) answer { return n.send("GET", path, n.token(subject, subject == "op"), "") }
	var all sync.WaitGroup // all calls wait for barriers at the same time
	unavailable := func(what string, call func() answer) {
		all.Go(func() {
			if a := call(); a.status != 503 || a.code() != "unavailable" {
				t.Errorf("%s behind the barrier: got %d %s, want 503 unavailable", what, a.status, a.body)
			}
		})
	}
	unavailable("the same payment", func() answer { return pay("payer", "r") })
	unavailable("another payment", func() answer { return pay("payer", "q") })
	unavailable("a payment of a cancelled order", func() answer { return pay("late", "r") })
	unavailable("a repeated cancellation", func() answer { return cancel("canceller") })
	unavailable("a cancellation of a paid order", func() answer { return cancel("payer") })
	unavailable("an order", func() answer { return read("payer", where["payer"]) })
	unavailable("a buyer's orders", func() answer { return read("payer", "/v1/orders") })
	unavailable("a sale's orders", func() answer { return read("op", "/v1/admin/sales/S/orders") })
	unavailable("the refunds", func() answer { return read("op", "/v1/admin/refunds") })
	// A replaced primary that still responds lacks the newest orders, so 404 also waits.
	unknown := "/v1/orders/" + orders.NewOrderID("S")
	unavailable("an unknown order", func() answer { return read("payer", unknown) })
	unavailable("an unknown order, read by an operator", func() answer { return read("op", "/v1/admin/orders/"+path.Base(unknown)) })
	unavailable("a cancellation of an unknown order", func() answer { return n.cancel("payer", unknown) })
	unavailable("a payment of an unknown order", func() answer { return n.pay("payer", unknown, "r") })
	unavailable("a refusal with a key", func() answer {
		return n.send("POST", "/v1/orders", n.token("payer", false), `{"sku":"S","quantity":10}`, "Idempotency-Key: another")
	})
	all.Wait()
	lost.Store(false) // entering direct mode needs a barrier
	toRedis.Cut()
	check.Eventually(t, "an order is accepted in direct mode", func() bool { return n.order("S", "other").status == 201 })
	lost.Store(true)
	own("direct", 201, place("direct"))
	unavailable("a replay of a direct order", place("direct"))
	unavailable("a replay of an order of the gate", func() answer { return n.order("S", "queued") })
	all.Wait()
}
