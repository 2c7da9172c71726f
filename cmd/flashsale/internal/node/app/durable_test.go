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

// stalling are real stores of which the database's log can be made to stand
// still, as on a disk that is about to fail, until the database is killed and
// started again. It has no binary log: others can read what is not yet synced.
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
		t.Fatalf("compile the shim: %v\n%s", err, out)
	}
	m := ownMySQL(t, s, servers.MySQLOptions{ExtraArgs: []string{"--skip-log-bin"}, Env: []string{"SLOWLOG=" + trigger, "LD_PRELOAD=" + shim}})
	stall = func() { check.Must(t, os.WriteFile(trigger, nil, 0o600)) }
	return s, stall, m.Kill, func() {
		check.Must(t, os.Remove(trigger))
		check.Must(t, m.Restart(context.WithoutCancel(t.Context())))
	}
}

// A claim is an answer that says that something is so, and how to see whether it
// is: what a later GET must contain.
type claim struct{ said, buyer, where, must string }

// claims are what was promised while the log stood still.
type claims struct {
	mu   sync.Mutex
	all  []claim
	over bool
}

func (c *claims) add(a claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && !slices.ContainsFunc(c.all, func(b claim) bool { return a.said == b.said && a.buyer == b.buyer }) {
		c.all = append(c.all, a)
	}
}

// check says which promises were made too early: all, for nothing was durable;
// and which of them turned out to be lost.
func (c *claims) check(t *testing.T, n *node) {
	t.Helper()
	for _, a := range c.all {
		t.Errorf("%s heard %q while the log stood still", a.buyer, a.said)
		check.Eventually(t, "the order can be read", func() bool { return n.send("GET", a.where, n.token(a.buyer, false), "").status != 503 })
		n.send("GET", a.where, n.token(a.buyer, false), "").says(a.must)
	}
}

// stalled is for how long the log stands still: longer than any answer takes, and
// than a keeper waits for a commit before it looks again.
const stalled = 8 * time.Second

// untilKilled makes each of the calls again and again while the log stands still,
// until the database is killed.
func (c *claims) untilKilled(kill func(), calls ...func()) {
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

// The database's log stands still, and then the database dies. Whatever was asked
// for meanwhile, and asked again, and read: nobody has heard yes, by gate and
// keeper, of a payment, of a cancellation, nor in a list.
func TestAcceptanceIsDurable(t *testing.T) {
	t.Parallel()
	s, stall, kill, restart := stalling(t)
	brief := func(c *Config) { c.Wait = time.Second } // then the test sends the order again
	nodes := []*node{start(t, s, brief), start(t, s, brief)}
	n := nodes[0]
	n.put("S", 100, 10, 900)
	where := map[string]string{}
	for _, buyer := range []string{"payer", "canceller"} {
		where[buyer] = n.sold("S", buyer).where()
	}
	n.audited("S", `"queued":0,"sold":2`)
	var early claims
	do := func(n *node, buyer, what, body, wants string) func() {
		return func() {
			path, method := where[buyer], "GET"
			if what != "" {
				path, method = path+"/"+what, "POST"
			}
			if a := n.send(method, path, n.token(buyer, false), body); a.status == 200 && a.has(wants) {
				early.add(claim{fmt.Sprintf("%s: %s", what, wants), buyer, where[buyer], wants})
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
					early.add(claim{"201", "ann", id, `"pending_payment"`})
				} else if a.status == 202 {
					if a := n.send("GET", id, n.token("ann", false), ""); a.has(`"pending_payment"`) {
						early.add(claim{"GET of a 202: pending_payment", "ann", id, `"pending_payment"`})
					}
				}
			},
			func() {
				for _, buyer := range []string{"payer", "canceller", "ann"} {
					a := n.send("GET", "/v1/orders", n.token(buyer, false), "")
					if a.has(paid) || a.has(cancelled) || buyer == "ann" && a.has("pending_payment") {
						early.add(claim{"list: " + a.body, buyer, "/v1/orders", a.body[len(a.body)/2:]})
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

// Whoever hears what was only read has waited for the barrier: without it nobody
// hears that something is so. What a caller's own write has brought about needs no
// barrier. Each answer by gate and keeper, and in direct mode.
func TestReadsWaitForBarrier(t *testing.T) {
	t.Parallel()
	s, toMySQL := servertest.SQLVia(t, servertest.Open(t, servers.KindReal))
	s, toRedis := servertest.RedisVia(t, s)
	n := start(t, s, func(c *Config) { c.Lease, c.Wait, c.DirectAfter = 2*time.Second, time.Second, 200*time.Millisecond })
	n.put("S", 100, 10, 900)
	where := map[string]string{}
	var lost atomic.Bool // the answers of all barriers
	lost.Store(true)
	toMySQL.LoseAnswers(1_000_000, func(sent []byte) bool { return lost.Load() && bytes.Contains(sent, []byte("barrier = barrier + 1")) })
	for _, buyer := range []string{"payer", "canceller", "late"} {
		where[buyer] = n.sold("S", buyer).where()
	}
	pay := func(buyer, ref string) answer { return n.pay(buyer, where[buyer], ref) }
	cancel := func(buyer string) answer { return n.cancel(buyer, where[buyer]) }
	pay("payer", "r").is(200)
	cancel("canceller").is(200)
	cancel("late").is(200)
	// The gate has forgotten the key by now, so the keeper looks for its order: the
	// caller may hear a 202 that promises nothing, and never the order.
	if a := n.order("S", "payer"); a.status != 503 && a.status != 202 {
		t.Errorf("replay: %d %s", a.status, a.body)
	}
	read := func(subject, path string) answer { return n.send("GET", path, n.token(subject, subject == "op"), "") }
	var all sync.WaitGroup // each call waits for its barrier
	never := func(what string, call func() answer) {
		all.Go(func() {
			if a := call(); a.status != 503 || a.code() != "unavailable" {
				t.Errorf("%s: %d %s", what, a.status, a.body)
			}
		})
	}
	never("the same payment", func() answer { return pay("payer", "r") })
	never("another payment", func() answer { return pay("payer", "q") })
	never("a payment too late", func() answer { return pay("late", "r") })
	never("cancelled again", func() answer { return cancel("canceller") })
	never("cancelled when paid", func() answer { return cancel("payer") })
	never("the order", func() answer { return read("payer", where["payer"]) })
	never("the orders", func() answer { return read("payer", "/v1/orders") })
	never("the sale's orders", func() answer { return read("op", "/v1/admin/sales/S/orders") })
	never("the refunds", func() answer { return read("op", "/v1/admin/refunds") })
	// A primary that was replaced and still answers does not have what the new one has.
	unknown := "/v1/orders/" + orders.NewOrderID("S")
	never("no such order", func() answer { return read("payer", unknown) })
	never("no such order for an operator", func() answer { return read("op", "/v1/admin/orders/"+path.Base(unknown)) })
	never("no such order to cancel", func() answer { return n.cancel("payer", unknown) })
	never("no such order to pay", func() answer { return n.pay("payer", unknown, "r") })
	never("no order under a key that is refused", func() answer {
		return n.send("POST", "/v1/orders", n.token("payer", false), `{"sku":"S","quantity":10}`, "Idempotency-Key: other")
	})
	all.Wait()
	lost.Store(false) // direct mode waits until its announcement is durable
	toRedis.Cut()
	check.Eventually(t, "it sells without Redis", func() bool { return n.order("S", "other").status == 201 })
	lost.Store(true)
	n.order("S", "direct").is(201)
	never("replay of a direct order", func() answer { return n.order("S", "direct") })
	never("replay of an order made by the gate", func() answer { return n.order("S", "payer") })
	all.Wait()
}
