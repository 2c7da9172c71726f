package shop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flashsale/inventory"
	"flashsale/inventory/coalesce"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// brief makes leases short and waits shorter, so that outages take no time.
func brief(c *Config) {
	c.Keeper.Lease = 2 * time.Second
	c.Wait = 300 * time.Millisecond
	c.SweepEvery = 50 * time.Millisecond
}

// Redis loses everything while two nodes sell: the gate is rebuilt without a
// hand, nothing is oversold and no yes is lost.
func TestRedisEmptiedUnderLoad(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b := open(t, s, brief), open(t, s, brief)
		a.put(t, kit.Sale("S", 200, 100))
		c, home := gather(t, "S", 8, a, b)
		for range 3 {
			c.moves(t, "before Redis is emptied", 50)
			built := a.Keepers().Counters().Rebuilt.Load() + b.Keepers().Counters().Rebuilt.Load()
			check.Must(t, a.rdb.FlushAll(t.Context()).Err())
			check.Eventually(t, "the gate is rebuilt", func() bool {
				return a.Keepers().Counters().Rebuilt.Load()+b.Keepers().Counters().Rebuilt.Load() > built
			})
		}
		c.moves(t, "after the last rebuild", 20)
		home()
		c.verdict(t)
	})
}

// Redis is away for a blink, and for longer than a lease, and comes back with
// what it had.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		via, wire := servertest.RedisVia(t, s)
		p := open(t, via, func(c *Config) {
			brief(c)
			c.Direct.After = time.Hour // what is sold without Redis is another test's
		})
		p.put(t, kit.Sale("S", 200, 100))
		c, home := gather(t, "S", 4, p)
		c.moves(t, "before", 20)

		wire.Cut()
		wire.Restore()
		c.moves(t, "after a blink", 20)

		wire.Cut()
		check.Eventually(t, "the lease is lost", func() bool { return len(p.Keepers().Kept()) == 0 })
		start := time.Now()
		_, err := p.Place(t.Context(), Placement{Buyer: "eve", SKU: "S", Quantity: 1, Key: "k"})
		if !isUnavailable(err) || time.Since(start) > 10*time.Second {
			t.Errorf("while Redis is away, after %v: %v", time.Since(start), err)
		}
		if _, err := p.Cancel(t.Context(), "eve", orders.NewOrderID("S")); !isUnavailable(err) {
			t.Errorf("an order that may be in the queue: %v", err)
		}
		wire.Restore()
		c.moves(t, "after Redis came back", 20)
		home()
		c.verdict(t)
	})
}

// MySQL is killed while orders come in. The gate lets in what its queue has
// room for, and then nothing; when MySQL is back, all of that becomes durable.
func TestMySQLAway(t *testing.T) {
	s, mysql := ownMySQL(t)
	here := goleak.IgnoreCurrent()
	t.Run("node", func(t *testing.T) {
		const room = 40
		p := open(t, s, func(c *Config) {
			brief(c)
			c.Gate = inventory.New(c.Redis, inventory.Config{QueueLimit: room})
		})
		p.put(t, kit.Sale("S", 1000, 1000))
		c, home := gather(t, "S", 20, p)
		c.moves(t, "before", 50)

		busy := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.no[inventory.ErrBusy.Error()]
		}
		mysql.Kill()
		before := busy()
		check.Eventually(t, "the queue is full", func() bool { return busy() > before+20 })
		if n, err := p.rdb.HGet(t.Context(), "sale:{S}", "queued").Int(); n != room || err != nil {
			t.Errorf("%d orders wait, in a queue of %d (%v)", n, room, err)
		}
		restart(t, mysql)
		c.moves(t, "after MySQL came back", 50)
		home()
		c.verdict(t)
		if len(c.open) == 0 {
			t.Error("nobody was answered 202")
		}
		p.stop()
	})
	goleak.VerifyNone(t, here, goleak.IgnoreAnyFunction("flashsale/loadtest/servers.startChild.func1")) // MySQL's second process
}

func restart(t *testing.T, mysql *servers.MySQL) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	check.Must(t, mysql.Restart(ctx))
}

// hang has a call of a group hang whose caller has gone. It returns once it does.
func hang[Q, A any](t *testing.T, g *coalesce.Group[Q, A], end <-chan struct{}) {
	t.Helper()
	call, began := g.Call, make(chan struct{})
	g.Call = func(ctx context.Context, key string, batch []*coalesce.Caller[Q, A]) {
		if key != "hangs" {
			call(ctx, key, batch)
			return
		}
		close(began)
		<-end
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-began
		leave()
	}()
	var q Q
	check.Is(t, check.Err(g.Do(ctx, "hangs", q)), context.Canceled)
}

// A node that stops waits for the transactions under way, also where nobody waits
// for their answers any more; for a lease, and no longer.
func TestStopWaitsForTransactions(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]func(t *testing.T, s *Service, end <-chan struct{}){
		"group commit": func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.keepers.Commits.Group, end) },
		"direct mode":  func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.direct.Group, end) },
		"awaiting":     func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.onPayment.Group, end) },
		"barrier":      func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.store.Barriers, end) },
	} {
		for _, forever := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, forever %v", name, forever), func(t *testing.T) {
				t.Parallel()
				const lease = 2 * time.Second
				p := build(t, servertest.Open(t, servers.KindEmbedded), brief)
				end := make(chan struct{})
				letGo := sync.OnceFunc(func() { close(end) })
				defer letGo()
				hangs(t, p.Service, end)
				p.start(t)
				var ended atomic.Bool
				if !forever {
					time.AfterFunc(lease/2, func() { ended.Store(true); letGo() })
				}
				began := time.Now()
				p.stop() // fails the test after 30 s
				if took := time.Since(began); forever && took < lease || !forever && !ended.Load() {
					t.Errorf("it has stopped after %v", took)
				}
			})
		}
	}
}

// ownMySQL are stores whose MySQL, shared with no other test, may be stopped or paused.
func ownMySQL(t *testing.T) (*servers.Stores, *servers.MySQL) {
	redis := servertest.OpenRedis(t, servers.KindReal)
	mysql := servertest.OpenMySQL(t, servers.MySQLOptions{})
	t.Cleanup(func() { _ = mysql.Resume() })
	dsn, err := mysql.NewDatabase(t.Context(), "flashsale")
	check.Must(t, err)
	return &servers.Stores{Kind: servers.KindReal, RedisURL: redis.URL, SQL: dsn}, mysql
}

// MySQL hangs: whose answer is in the database alone hears that it is not to be had.
func TestHearsWhileMySQLHangs(t *testing.T) {
	t.Parallel()
	stores, mysql := ownMySQL(t)
	p := open(t, stores, brief)
	p.cfg.Wait = 10 * time.Second
	p.put(t, kit.Sale("S", 10, 1))
	onPayment := kit.Sale("P", 10, 1)
	onPayment.ReserveOn = orders.OnPayment
	p.put(t, onPayment)
	first := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
	if placed, err := p.Place(t.Context(), first); err != nil || placed.Order.Status != orders.PendingPayment {
		t.Fatalf("%+v, %v", placed.Order, err)
	}
	check.Must(t, mysql.Pause())
	for name, asked := range map[string]Placement{
		"replay":         first,
		"another key":    {Buyer: "ann", SKU: "S", Quantity: 1, Key: "another"},
		"on payment":     {Buyer: "ann", SKU: "P", Quantity: 1},
		"a SKU made now": {Buyer: "ann", SKU: "T", Quantity: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			if _, err := p.Place(t.Context(), asked); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > store.Timeout+2500*time.Millisecond {
				t.Errorf("it has heard after %v", took)
			}
		})
	}
}

// MySQL hangs: a node that is told to stop does, all the same.
func TestStopWhileMySQLHangs(t *testing.T) {
	t.Parallel()
	stores, mysql := ownMySQL(t)
	p := open(t, stores, brief)
	p.put(t, kit.Sale("S", 10, 1))
	check.Must(t, mysql.Pause())
	answer, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})
	if err != nil || answer.Order.Status != orders.Reserved {
		t.Fatalf("%+v, %v", answer.Order, err)
	}
	start := time.Now()
	p.stop() // fails the test after 30 s
	t.Logf("stopped in %v", time.Since(start))
	check.Must(t, mysql.Resume())
	// The next node carries the order over.
	q := open(t, stores, brief)
	check.Eventually(t, "the order is durable", func() bool {
		o, err := q.Order(t.Context(), "ann", answer.Order.ID, "S", "k")
		return err == nil && o.Status == orders.PendingPayment
	})
}
