package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale/loadtest/servers"
)

// restartMySQL kills MySQL and starts it again on its data.
func restartMySQL(n *nemesis, p step) error {
	ctx, cancel := n.healing()
	defer cancel()
	n.condition.change(loss, func(c *condition) { c.mysql++ })
	n.mysqls[n.primary].Kill()
	n.did(fmt.Sprintf("MySQL killed for %.1fs", p.last.Seconds()))
	sleep(n.ctx, p.last)
	err := n.mysqls[n.primary].Restart(ctx)
	n.condition.change(loss, func(c *condition) { c.mysql-- })
	return err
}

// leaveBehind pauses MySQL's primary, which waits for its replica, and promotes the
// replica. The old primary then resumes. It commits nothing any more, but one node is left
// there and reads from it. The last sale takes units on payment, and both nodes receive
// the same payments. In variant 1, a sale in direct mode is sold out at that moment, and
// both nodes receive the same orders.
func leaveBehind(n *nemesis, p step) error {
	ctx, cancel := n.healing()
	defer cancel()
	old, next := n.mysqls[n.primary], n.mysqls[1-n.primary]
	if !strings.HasPrefix(old.Version, "MariaDB") {
		n.did("no node is left behind: " + old.Version + " is no MariaDB")
		return nil
	}
	var err error
	if next == nil {
		if next, err = n.StartMySQL(ctx, "mysql-2", servers.MySQLOptions{ExtraArgs: []string{servers.LogReplicated}}); err != nil {
			return err
		}
		n.mysqls[1-n.primary] = next
		if err := next.Follow(ctx, n.relay.Addr()); err != nil {
			return err
		}
	}
	if !n.caughtUp(n.ctx, old, next) {
		n.did("no node is left behind: the replica is late")
		return nil
	}
	skus := []string{n.skus[skuCount-1], n.skus[p.sku]}
	for _, sku := range skus {
		n.operator.leave(sku, true)
		defer n.operator.leave(sku, false)
	}
	n.onPayment.Store(true)
	n.keepLeft(few, time.Second, skus...)
	if p.variant == 1 {
		n.cutAllRedis()
		n.harms(loss, func(c *condition) { c.redis++ }, "Redis is cut off from all nodes")
		n.within(n.ctx, directWithin, func(context.Context) bool { return n.seen.Load().sales[skus[1]].mode == "direct" })
		n.keepLeft(0, 500*time.Millisecond, skus[1])
	}
	asks := n.asks(p, skus)
	err = n.replace(p, old, next, skus, asks)
	if p.variant == 1 {
		n.restoreAllRedis()
		n.condition.change(loss, func(c *condition) { c.redis-- })
	}
	if err != nil {
		return err
	}
	ctx, cancel = n.healing() // the first context may have ended
	defer cancel()
	if err := old.RestartEmpty(ctx); err != nil {
		return err
	}
	n.relay.Lead(next.Addr())
	return old.Follow(ctx, n.relay.Addr())
}

// asks returns the calls whose outcome only the new primary will have: payments of orders
// that both primaries have, or orders in direct mode.
func (n *nemesis) asks(p step, skus []string) (asks []call) {
	for i := range 4 {
		c := call{
			verb: place, node: (p.node + 1) % nodeCount, buyer: fmt.Sprintf("left-%d-%d-%d", n.number, n.faults.Load(), i),
			sku: skus[p.variant], key: keyMark + "left", quantity: buyerLimit,
		}
		if p.variant == 0 {
			placed := n.untilYes(c)
			if !placed.yes() {
				continue
			}
			c.order, c.verb, c.ref = placed.got.ID, pay, refMark+c.buyer
		}
		asks = append(asks, c)
	}
	return asks
}

// untilYes repeats a call until it is accepted, for at most about a second.
func (n *nemesis) untilYes(c call) (got *call) {
	for range 10 {
		if got = n.do(n.whole, c); got.yes() {
			break
		}
		sleep(n.ctx, 100*time.Millisecond)
	}
	return got
}

// replace makes next the primary in place of old, and leaves a node behind for a while.
// During that time both nodes receive the calls.
func (n *nemesis) replace(p step, old, next *servers.MySQL, skus []string, asks []call) error {
	ctx, cancel := n.healing()
	defer cancel()
	if err := old.Lossless(ctx); err != nil {
		return err
	}
	if !n.caughtUp(ctx, old, next) { // the replica must have the rows that were committed before the primary waited for it
		return errors.New("the replica does not follow")
	}
	n.condition.change(loss, func(c *condition) { c.mysql++ })
	if err := old.Pause(); err != nil {
		return err
	}
	n.relay.Cut() // a replica that stops cleanly would wait for the paused primary
	if err := next.Promote(ctx); err != nil {
		return err
	}
	if err := old.Resume(); err != nil {
		return err
	}
	n.primary = 1 - n.primary
	n.dbWire.Lead(next.Addr())
	for i, node := range n.Nodes {
		if i != p.node {
			node.MySQL.Lead(next.Addr())
		}
	}
	n.harms(loss, func(c *condition) { c.mysql--; c.noMySQL[p.node]++ }, "MySQL fails over, %s is left at the old primary for %.1fs", n.Nodes[p.node].Name, p.last.Seconds())
	for _, sku := range skus {
		n.operator.stock(n.ctx, sku, few)
	}
	for _, c := range asks {
		n.later(func() {
			if n.untilYes(c).yes() {
				c.node = p.node
				n.do(n.whole, c)
			}
		})
	}
	n.keepLeft(1, p.last, skus...)
	old.Kill() // a clean stop might not end, because sessions wait for a replica
	n.Nodes[p.node].MySQL.Lead(next.Addr())
	n.condition.change(mend, func(c *condition) { c.noMySQL[p.node]-- })
	return nil
}

// caughtUp waits until the replica has all that the primary has now, and reports whether
// the replica has caught up.
func (n *nemesis) caughtUp(ctx context.Context, primary, replica *servers.MySQL) bool {
	ahead, err := primary.Transactions(ctx)
	return err == nil && n.within(ctx, 10*time.Second, func(ctx context.Context) bool {
		has, err := replica.Transactions(ctx)
		return err == nil && has >= ahead
	})
}
