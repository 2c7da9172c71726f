package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"flashsale/inventory"
	"flashsale/inventory/coalesce"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// brief shortens Wait, for outages during which no order becomes durable.
func brief(c *Config) { c.Wait, c.SweepEvery = 2*time.Second, 50*time.Millisecond }

// Redis loses all data while two nodes sell, or an operator requests a rebuild. Each time,
// the gate is rebuilt, nothing is oversold, and no durable order is lost.
func TestRebuildUnderLoad(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b := open(t, s, brief), open(t, s, brief)
		a.put(t, kit.Sale("S", 100_000, 100_000))
		c, stop := gather(t, "S", 8, a, b)
		rebuilt := func() int64 {
			return a.Controller().Counters().Rebuilt.Load() + b.Controller().Counters().Rebuilt.Load()
		}
		for round := range 4 {
			c.waitFor(t, "before a rebuild", 20)
			built := rebuilt()
			if round%2 == 0 {
				check.Must(t, a.rdb.FlushAll(t.Context()).Err())
			} else {
				_, err := untilKnown(t, func() (store.Audit, error) { return a.Rebuild(t.Context(), "S") })
				check.Must(t, err)
			}
			check.Eventually(t, "the gate is rebuilt", func() bool { return rebuilt() > built })
		}
		c.waitFor(t, "after the last rebuild", 20)
		stop()
		c.verify(t)
	})
}

// MySQL is killed during a sale. The gate accepts orders until its queue is full, and then
// refuses them. When MySQL is back, all queued orders become durable.
func TestMySQLAway(t *testing.T) {
	s, mysql := ownMySQL(t)
	here := goleak.IgnoreCurrent()
	t.Run("node", func(t *testing.T) {
		const limit = 40
		p := open(t, s, func(c *Config) {
			brief(c)
			c.Gate = inventory.KeeperGate{Gate: inventory.New(c.Redis, inventory.Config{QueueLimit: limit})}
		})
		p.put(t, kit.Sale("S", 1000, 1000))
		c, stop := gather(t, "S", 20, p)
		c.waitFor(t, "before MySQL is killed", 50)

		busy := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.failed[inventory.ErrBusy.Error()]
		}
		mysql.Kill()
		before := busy()
		check.Eventually(t, "the queue is full", func() bool { return busy() > before+20 })
		if n, err := p.rdb.HGet(t.Context(), "sale:{S}", "queued").Int(); n != limit || err != nil {
			t.Errorf("queue of the sale: got %d orders, error %v, want %d", n, err, limit)
		}
		check.Must(t, mysql.Restart(check.Context(t)))
		c.waitFor(t, "after MySQL is back", 50)
		stop()
		c.verify(t)
		if len(c.undecided) == 0 {
			t.Error("orders while MySQL was away: got none answered as reserved, want some")
		}
		p.stop()
	})
	goleak.VerifyNone(t, here, goleak.IgnoreAnyFunction("flashsale/loadtest/servers.startChild.func1")) // MySQL's second process
}

// hang starts a call of a group that does not return until end is closed, and returns once the
// caller has given up.
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

// A node that stops waits for the transactions in progress, for at most a lease. It also waits
// for transactions whose callers have given up.
func TestStopWaitsForTransactions(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]func(t *testing.T, s *Service, end <-chan struct{}){
		"group commit": func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.controller.Commits.Group, end) },
		"direct mode":  func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.direct.Group, end) },
		"awaiting":     func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.onPayment.Group, end) },
		"barrier":      func(t *testing.T, s *Service, end <-chan struct{}) { hang(t, s.store.Reads, end) },
	} {
		for _, lasts := range []time.Duration{time.Second, time.Hour} {
			t.Run(fmt.Sprintf("%s, %v", name, lasts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }})
					defer func() { _ = rdb.Close() }()
					s := New(Config{
						Store: bare.OpenStore(t, "sqlite:"+t.TempDir()+"/db"), Gate: bare.NewGate(rdb, 0), Redis: rdb, Log: check.Log(t),
					})
					end := make(chan struct{})
					hangs(t, s, end)
					time.AfterFunc(lasts, func() { close(end) })
					stopped, cancel := context.WithCancel(t.Context())
					cancel()
					began := time.Now()
					check.OK(t, s.Run(stopped))
					if took := time.Since(began); took != min(lasts, s.cfg.Keeper.Lease) {
						t.Errorf("Run of the node: got its end after %v, want %v", took, min(lasts, s.cfg.Keeper.Lease))
					}
					<-end
				})
			})
		}
	}
}

// ownMySQL returns stores whose MySQL is not shared with other tests, so it may be stopped or
// paused.
func ownMySQL(t *testing.T) (*servers.Stores, *servers.MySQL) {
	toRedis := servertest.OpenRedis(t, servers.KindReal)
	mysql := servertest.OpenMySQL(t, servers.MySQLConfig{})
	t.Cleanup(func() { _ = mysql.Resume() })
	dsn, err := mysql.NewDatabase(t.Context(), "flashsale")
	check.Must(t, err)
	return &servers.Stores{Kind: servers.KindReal, RedisURL: toRedis.URL, SQL: dsn}, mysql
}

// If MySQL hangs, calls that need the database fail, and the node can still be stopped. The
// next node commits the queued orders.
func TestMySQLHangs(t *testing.T) {
	t.Parallel()
	stores, mysql := ownMySQL(t)
	p := open(t, stores, func(c *Config) {
		brief(c)
		c.Store = bare.OpenStoreWith(t, stores.SQL, store.DefaultTimeout)
	})
	p.put(t, kit.Sale("S", 10, 1))
	p.put(t, onPayment("P", 10, 1))
	first := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
	if o := places(t, p, first, nil).Order; o.Status != orders.PendingPayment {
		t.Fatalf("order: got %+v, want %s", o, orders.PendingPayment)
	}
	check.Must(t, mysql.Pause())
	answer, err := p.Place(t.Context(), Placement{Buyer: "bob", SKU: "S", Quantity: 1, Key: "k"})
	if err != nil || answer.Order.Status != orders.Reserved {
		t.Fatalf("order while MySQL hangs: got %+v, error %v, want %s", answer.Order, err, orders.Reserved)
	}
	p.cfg.Wait = bare.Patience
	var all sync.WaitGroup
	for name, asked := range map[string]Placement{
		"replay":         first,
		"another key":    {Buyer: "ann", SKU: "S", Quantity: 1, Key: "another"},
		"on payment":     {Buyer: "ann", SKU: "P", Quantity: 1},
		"an unknown SKU": {Buyer: "ann", SKU: "T", Quantity: 1},
	} {
		all.Go(func() {
			if _, err := p.Place(t.Context(), asked); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("order %s while MySQL hangs: got error %v, want %v", name, err, context.DeadlineExceeded)
			}
		})
	}
	all.Wait()
	p.stop()
	check.Must(t, mysql.Resume())
	q := open(t, stores, nil)
	check.Eventually(t, "the order is durable", func() bool {
		o, err := q.Order(t.Context(), "bob", answer.Order.ID, "S", "k")
		return err == nil && o.Status == orders.PendingPayment
	})
}
