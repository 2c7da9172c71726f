package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

func mysqlAway(c *brokenState, by int) { c.mysql += by }

func restartMySQL(h *harm, p step) error {
	db := h.mysqls[h.primary]
	db.Kill()
	return h.lasts(p, lost, mysqlAway, db.Restart, "MySQL killed")
}

// leaveBehind pauses MySQL's primary, which waits for its replica, and promotes the
// replica. The old primary then resumes. It commits nothing any more, but one node is left
// there and reads from it. The last sale takes units on payment, and both nodes receive
// the same payments. In variant 1, a sale in direct mode is sold out at that moment, and
// both nodes receive the same orders.
func leaveBehind(h *harm, p step) error {
	ctx, cancel := h.healing()
	defer cancel()
	if version := h.mysqls[h.primary].Version; !strings.HasPrefix(version, "MariaDB") {
		h.did("no node is left behind: %s is no MariaDB", version)
		return nil
	}
	if err := h.standby(ctx); err != nil {
		return err
	}
	if err := h.caughtUp(h.ctx); err != nil {
		h.did("no node is left behind: %v", err)
		return nil
	}
	skus := []string{h.skus[skuCount-1], h.skus[p.sku]}
	defer h.operator.leave(skus...)()
	h.operator.onPayment.Store(true)
	h.operator.keepLeft(h.ctx, few, time.Second, skus...)
	if p.variant == 1 {
		h.cutAllRedis()
		h.harms(lost, func(c *brokenState) { c.redis++ }, "Redis is cut off from all nodes")
		h.operator.within(h.ctx, directWithin, func(context.Context) bool { return h.operator.seen.Load().sales[skus[1]].mode == "direct" })
		h.operator.keepLeft(h.ctx, 0, 500*time.Millisecond, skus[1])
	}
	err := h.replace(p, skus, h.asks(p, skus))
	if p.variant == 1 {
		h.restoreAllRedis()
		h.state.change(lost, func(c *brokenState) { c.redis-- })
	}
	if err != nil {
		return err
	}
	ctx, cancel = h.healing() // the first context may have ended
	defer cancel()
	return h.rebuild(ctx)
}

// asks returns the calls whose outcome only the new primary will have: payments of orders
// that both primaries have, or orders in direct mode.
func (h *harm) asks(p step, skus []string) (asks []call) {
	for i := range 4 {
		c := call{
			verb: place, node: (p.node + 1) % nodeCount, buyer: fmt.Sprintf("left-%d-%d-%d", h.operator.number, h.operator.faults.Load(), i),
			sku: skus[p.variant], key: keyMark + "left", quantity: buyerLimit,
		}
		if p.variant == 0 {
			placed := h.untilAccepted(c)
			if !placed.accepted() {
				continue
			}
			c.order, c.verb, c.ref = placed.Order.ID, pay, refMark+c.buyer
		}
		asks = append(asks, c)
	}
	return asks
}

// untilAccepted repeats a call until it is accepted, for at most about a second.
func (h *harm) untilAccepted(c call) (got *call) {
	for range 10 {
		if got = h.operator.do(h.operator.whole, c); got.accepted() {
			break
		}
		sleep(h.ctx, 100*time.Millisecond)
	}
	return got
}

// replace makes the replica the primary, and leaves a node behind for a while. During that
// time both nodes receive the calls.
func (h *harm) replace(p step, skus []string, asks []call) error {
	ctx, cancel := h.healing()
	defer cancel()
	if err := h.mysqls[h.primary].Lossless(ctx); err != nil {
		return err
	}
	if err := h.caughtUp(ctx); err != nil { // the replica must have the rows that were committed before the primary waited for it
		return err
	}
	h.state.change(lost, func(c *brokenState) { c.mysql++ })
	if err := h.supersede(ctx, 0); err != nil {
		return err
	}
	h.operator.dbWire.Lead(h.mysqls[h.primary].Addr())
	left := h.Nodes[p.node]
	h.leadMySQL(except(h.Nodes, left)...)
	h.harms(lost, func(c *brokenState) { c.mysql--; c.noMySQL[p.node]++ }, "MySQL fails over, %s is left at the old primary for %.1fs", left.Name, p.last.Seconds())
	for _, sku := range skus {
		h.operator.stock(h.ctx, sku, few)
	}
	for _, c := range asks {
		h.operator.later(func() {
			if h.untilAccepted(c).accepted() {
				c.node = p.node
				h.operator.do(h.operator.whole, c)
			}
		})
	}
	h.operator.keepLeft(h.ctx, 1, p.last, skus...)
	h.mysqls[1-h.primary].Kill() // a clean stop might not end, because sessions wait for a replica
	h.leadMySQL(left)
	h.state.change(mended, func(c *brokenState) { c.noMySQL[p.node]-- })
	return nil
}

func except(nodes []*lab.Node, one *lab.Node) []*lab.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *lab.Node) bool { return n == one })
}

// failOverMySQL kills the primary while its replica lacks its last transactions.
func failOverMySQL(h *harm, p step) error {
	err := h.wait(p)
	h.mysqls[h.primary].Kill()
	h.did("primary killed")
	sleep(h.ctx, p.down)
	if err := errors.Join(err, h.promoteMySQL(h.ctx)); err != nil {
		return err
	}
	h.did("replica promoted")
	h.leadMySQL(h.Nodes...)
	return h.attack.rebuildPrimary(h.ctx)
}

// pauseMySQL promotes the replica of a primary that is paused and continues. One node is
// left there, and the drill asks the old primary for a write, too.
func pauseMySQL(h *harm, p step) error {
	left, old := h.Nodes[p.node], h.mysqls[h.primary]
	h.did("primary paused")
	ctx := context.WithoutCancel(h.ctx)
	if err := h.supersede(ctx, p.down); err != nil {
		return err
	}
	has, err := h.mysqls[h.primary].Transactions(ctx)
	if err != nil {
		return err
	}
	h.did("replica promoted, old primary continues, %s left behind", left.Name)
	h.leadMySQL(except(h.Nodes, left)...)
	asking, cancel := context.WithTimeout(ctx, p.last)
	defer cancel()
	if _, err := h.attack.mysql.ExecContext(asking, "INSERT INTO nodes (id, seen_at) VALUES ('left-behind', '2000-01-01')"); err == nil {
		h.broke("the old primary confirmed a write that nobody else has")
		sleep(asking, p.last)
	}
	h.leadMySQL(left)
	now, err := old.Transactions(ctx)
	h.did("%s led to the new primary, the old one has %d transactions that nobody else has", left.Name, now-has)
	return errors.Join(err, h.attack.rebuildPrimary(ctx))
}

// failOverGroup kills the primary of a replication group, which elects another one.
func failOverGroup(h *harm, _ step) error {
	old := h.mysqls[h.primary]
	old.Kill()
	h.did("primary killed")
	ctx := context.WithoutCancel(h.ctx)
	err := h.attack.until(ctx, "the group has another primary", func(ctx context.Context) bool {
		at := slices.IndexFunc(old.Members, func(m *servers.MySQL) bool { return m.IsPrimary(ctx) })
		if at >= 0 {
			h.mysqls[1], h.primary = old.Members[at], 1
		}
		return at >= 0
	})
	if err != nil {
		return err
	}
	h.leadMySQL(h.Nodes...)
	h.did("another one elected")
	if err = old.Restart(ctx); err != nil {
		return err
	}
	h.did("old primary started again")
	if err = old.JoinGroup(ctx, h.mysqls[1].Addr()); err == nil {
		h.did("it is a member again")
	}
	return err
}
