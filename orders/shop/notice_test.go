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

// apart starts two nodes: one keeps the sale that it returns, orders are placed
// through the other. A node that is deaf hears no message of the other.
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

// A caller on another node hears of the commit by message.
func TestToldAcrossNodes(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s)
		messages := p.rdb.Subscribe(t.Context(), "orders:notice:sells")
		defer func() { _ = messages.Close() }()
		check.Must(t, check.Err(messages.Receive(t.Context())))
		for range 10 {
			placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1})
			if err != nil || placed.Order.Status != orders.PendingPayment || placed.Order.Amount != 1999 || placed.Order.ExpiresAt.IsZero() {
				t.Fatalf("%+v, %v", placed.Order, err)
			}
			m, err := messages.ReceiveMessage(t.Context())
			if err != nil || !strings.Contains(m.Payload, placed.Order.ID) {
				t.Errorf("%s: the message is %v, %v", placed.Order.ID, m, err)
			}
		}
	})
}

// If messages to the caller's node are lost, the node reads the order from the database.
func TestToldMessageLost(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s, "sells")
		for buyer, want := range map[string]orders.Status{"ann": orders.PendingPayment, "bob": orders.Reserved} {
			if want == orders.Reserved { // shows that the message is lost: a caller with a short wait receives no decision
				p.cfg.Wait = time.Millisecond
			}
			if o := places(t, p, Placement{Buyer: buyer, SKU: sku, Quantity: 1}, nil).Order; o.Status != want {
				t.Errorf("%s: %+v", buyer, o)
			}
			p.cfg.Wait = bare.Patience
		}
	})
}

// If messages to the keeper are lost, about new orders and about closed orders, the keeper
// finds the orders in its next pass.
func TestKeeperNotCalled(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s, "keeps")
		o := places(t, p, Placement{Buyer: "ann", SKU: sku, Quantity: 1}, nil).Order
		if o.Status != orders.PendingPayment {
			t.Fatalf("%+v", o)
		}
		cancels(t, p, "ann", o.ID, nil)
		if a := p.settled(t, sku); a.Available != 100 {
			t.Errorf("%+v", a)
		}
	})
}

// A waiting caller is not notified of a row that was only read. The barrier has to commit
// first, and its answer is lost here.
func TestRecheckWaitsForTheBarrier(t *testing.T) {
	s, toMySQL := servertest.SQLVia(t, servertest.Open(t, servers.KindReal))
	_, ids := bare.Stocked(t, s.SQL, 1)
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
		t.Errorf("%d barriers were lost, and the recheck returned %v", lost(), err)
	}
	select {
	case notice := <-w.notice:
		t.Errorf("notified without a barrier: %+v", notice.Order)
	default:
	}
}

// An operator's change reaches the keeper by a message, whichever node receives the
// change. No node looks at its sales by itself in this test.
func TestChangeReachesTheKeeper(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		change := func(c *Config) {
			c.Keeper.ResyncEvery, c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = time.Hour, time.Hour, time.Hour
		}
		a, b := open(t, s, change), open(t, s, change)
		a.put(t, kit.Sale("S", 10, 1))
		for i, p := range []*shop{a, b} {
			_, _, err := p.PutSale(t.Context(), kit.Sale("S", int64(20+i), 1))
			check.Must(t, err)
		}
	})
}
