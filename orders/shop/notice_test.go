package shop

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/controller"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
)

// apart starts two nodes. The node "keeps" keeps the sale of sku, and the test places orders
// through the node "sells". A node named in deaf receives no messages.
func apart(t *testing.T, s *servers.Stores, deaf ...string) (seller *shop, sku string) {
	t.Helper()
	node := func(name string) *shop {
		return build(t, s, func(c *Config) {
			c.Store.Node = name
			if slices.Contains(deaf, name) {
				c.Locks = lock.New(c.Redis, lease.Config{Lease: c.Keeper.LockLease()})
				c.Redis = kit.OpenRedis(t, servertest.Open(t, servers.KindEmbedded).RedisURL)
			}
		})
	}
	seller, kp := node("sells"), node("keeps")
	for i := 0; controller.ShouldKeep([]string{"sells", "keeps"}, sku) != "keeps"; i++ {
		sku = fmt.Sprint("S", i)
	}
	kp.start(t)
	seller.start(t)
	kp.put(t, kit.Sale(sku, 100, 50))
	spread(t, []string{sku}, kp, seller)
	return seller, sku
}

// The keeper sends a notice to the node of the caller.
func TestNoticeReachesAnotherNode(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s)
		messages := p.rdb.Subscribe(t.Context(), "orders:notice:sells")
		defer func() { _ = messages.Close() }()
		check.Must(t, check.Err(messages.Receive(t.Context())))
		for range 10 {
			placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1})
			if err != nil || placed.Order.Status != orders.PendingPayment || placed.Order.Amount != 1999 || placed.Order.ExpiresAt.IsZero() {
				t.Fatalf("order: got %+v, error %v, want a durable order", placed.Order, err)
			}
			m, err := messages.ReceiveMessage(t.Context())
			if err != nil || !strings.Contains(m.Payload, placed.Order.ID) {
				t.Errorf("message: got %v, error %v, want one with order %s", m, err, placed.Order.ID)
			}
		}
	})
}

// If notices to the caller's node are lost, the node reads the order from the database.
func TestLostNoticeIsRechecked(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s, "sells")
		for buyer, want := range map[string]orders.Status{"ann": orders.PendingPayment, "bob": orders.Reserved} {
			if want == orders.Reserved { // the short wait shows that no notice arrives
				p.cfg.Wait = time.Millisecond
			}
			if o := places(t, p, Placement{Buyer: buyer, SKU: sku, Quantity: 1}, nil).Order; o.Status != want {
				t.Errorf("order of %s: got %+v, want %s", buyer, o, want)
			}
			p.cfg.Wait = bare.Patience
		}
	})
}

// If messages to the keeper are lost, the keeper finds new orders and closed orders in its next
// pass.
func TestKeeperWorksWithoutMessages(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s, "keeps")
		o := places(t, p, Placement{Buyer: "ann", SKU: sku, Quantity: 1}, nil).Order
		if o.Status != orders.PendingPayment {
			t.Fatalf("order: got %+v, want %s", o, orders.PendingPayment)
		}
		cancels(t, p, "ann", o.ID, nil)
		if a := p.settled(t, sku); a.Available != 100 {
			t.Errorf("audit of the sale: got %+v, want 100 available", a)
		}
	})
}

// recheck does not notify a caller of a row that was only read. It waits for the barrier, whose
// answer is lost here.
func TestRecheckWaitsForTheBarrier(t *testing.T) {
	s, toMySQL := servertest.SQLVia(t, servertest.Open(t, servers.KindReal))
	_, ids := bare.StoreWithOrders(t, s.SQL, 1)
	p := build(t, s, nil)
	w := p.waiters.wait(ids[0])
	w.since = w.since.Add(-2 * recheckAfter)
	lost := toMySQL.LoseAnswers(1000, func(sent []byte) bool { return bytes.Contains(sent, []byte("barrier = barrier + 1")) })
	ctx, cancel := context.WithCancel(check.Context(t))
	defer cancel()
	rechecked := make(chan error, 1)
	go func() { rechecked <- p.recheck(ctx) }()
	check.Eventually(t, "the barrier is lost, or the recheck ends", func() bool { return lost() > 0 || len(rechecked) > 0 })
	cancel()
	if err := check.Receive(t, "the recheck ends", rechecked); err == nil || lost() == 0 {
		t.Errorf("recheck behind the barrier: got %d lost barriers and error %v, want an error after a lost barrier", lost(), err)
	}
	select {
	case notice := <-w.notice:
		t.Errorf("notice without a barrier: got %+v, want none", notice.Order)
	default:
	}
}

// An operator's change reaches the keeper by a message, from each node. The intervals of resync
// and comparison are an hour in this test.
func TestChangeReachesTheKeeper(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		change := func(c *Config) {
			c.Keeper.ResyncEvery, c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = time.Hour, time.Hour, time.Hour
		}
		a, b := open(t, s, change), open(t, s, change)
		a.put(t, kit.Sale("S", 10, 1))
		for i, p := range []*shop{a, b, a} {
			_, _, err := p.PutSale(t.Context(), kit.Sale("S", int64(20+i), 1))
			check.Must(t, err)
		}
	})
}
