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

func restartMySQL(in *injector, p step) error {
	db := in.mysqls[in.primary]
	db.Kill()
	return in.lasts(p, lost, mysqlAway, db.Restart, "MySQL killed")
}

// leaveBehind fails MySQL over and leaves one node at the old primary. That primary waits
// for its replica, so it answers reads and commits nothing. The last sale takes units on
// payment, and the node left behind receives the same payments as another node. In variant
// 1, a sale in direct mode is sold out at that time, and both nodes receive the same orders.
func leaveBehind(in *injector, p step) error {
	ctx, cancel := in.healing()
	defer cancel()
	if version := in.mysqls[in.primary].Version; !strings.HasPrefix(version, "MariaDB") {
		in.did("no node is left behind: %s is not MariaDB", version)
		return nil
	}
	if err := in.standby(ctx); err != nil {
		return err
	}
	if err := in.caughtUp(in.ctx); err != nil {
		in.did("no node is left behind: %v", err)
		return nil
	}
	skus := []string{in.skus[skuCount-1], in.skus[p.sku]}
	defer in.operator.leave(skus...)()
	in.operator.onPayment.Store(true)
	in.operator.keepLeft(in.ctx, few, time.Second, skus...)
	if p.variant == 1 {
		in.cutAllRedis()
		in.begin(lost, func(c *brokenState) { c.redis++ }, "Redis is cut off from all nodes")
		in.operator.within(in.ctx, directWithin, func(context.Context) bool { return in.operator.seen.Load().sales[skus[1]].mode == "direct" })
		in.operator.keepLeft(in.ctx, 0, 500*time.Millisecond, skus[1])
	}
	err := in.replace(p, skus, in.asks(p, skus))
	if p.variant == 1 {
		in.restoreAllRedis()
		in.state.change(lost, func(c *brokenState) { c.redis-- })
	}
	if err != nil {
		return err
	}
	ctx, cancel = in.healing() // the first context may have ended
	defer cancel()
	return in.rebuild(ctx)
}

// asks returns the calls whose outcome only the new primary has: payments of orders that
// both primaries have, or orders in direct mode.
func (in *injector) asks(p step, skus []string) (asks []call) {
	for i := range 4 {
		c := call{
			verb: place, node: (p.node + 1) % nodeCount, buyer: fmt.Sprintf("left-%d-%d-%d", in.operator.number, in.operator.faults.Load(), i),
			sku: skus[p.variant], key: keyMark + "left", quantity: buyerLimit,
		}
		if p.variant == 0 {
			placed := in.untilAccepted(c)
			if !placed.accepted() {
				continue
			}
			c.order, c.verb, c.ref = placed.Order.ID, pay, refMark+c.buyer
		}
		asks = append(asks, c)
	}
	return asks
}

// untilAccepted repeats a call until it is accepted, for about one second.
func (in *injector) untilAccepted(c call) (got *call) {
	for range 10 {
		if got = in.operator.do(in.operator.runCtx, c); got.accepted() {
			break
		}
		sleep(in.ctx, 100*time.Millisecond)
	}
	return got
}

// replace makes the replica the primary, and leaves one node at the old primary for a
// while. Each call of asks is repeated at a node of the new primary until it is accepted, and is
// then sent once to the node at the old primary.
func (in *injector) replace(p step, skus []string, asks []call) error {
	ctx, cancel := in.healing()
	defer cancel()
	if err := in.mysqls[in.primary].RequireReplica(ctx); err != nil {
		return err
	}
	if err := in.caughtUp(ctx); err != nil { // the replica must have the rows that were committed before the primary waited for it
		return err
	}
	in.state.change(lost, func(c *brokenState) { c.mysql++ })
	if err := in.supersede(ctx, 0); err != nil {
		return err
	}
	in.operator.dbWire.Redirect(in.mysqls[in.primary].Addr())
	left := in.Nodes[p.node]
	in.leadMySQL(except(in.Nodes, left)...)
	in.begin(lost, func(c *brokenState) { c.mysql--; c.noMySQL[p.node]++ }, "MySQL fails over, %s is left at the old primary for %.1fs", left.Name, p.last.Seconds())
	for _, sku := range skus {
		in.operator.stock(in.ctx, sku, few)
	}
	for _, c := range asks {
		in.operator.later(func() {
			if in.untilAccepted(c).accepted() {
				c.node = p.node
				in.operator.do(in.operator.runCtx, c)
			}
		})
	}
	in.operator.keepLeft(in.ctx, 1, p.last, skus...)
	in.mysqls[1-in.primary].Kill() // a clean stop might not end, because sessions wait for a replica
	in.leadMySQL(left)
	in.state.change(mended, func(c *brokenState) { c.noMySQL[p.node]-- })
	return nil
}

func except(nodes []*lab.Node, one *lab.Node) []*lab.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *lab.Node) bool { return n == one })
}

// failOverMySQL kills the primary while its replica lacks the last transactions.
func failOverMySQL(in *injector, p step) error {
	in.relay.Cut()
	err := in.wait(p)
	in.mysqls[in.primary].Kill()
	in.did("primary killed")
	sleep(in.ctx, p.down)
	if err := errors.Join(err, in.promoteMySQL(in.ctx)); err != nil {
		return err
	}
	in.did("replica promoted")
	in.leadMySQL(in.Nodes...)
	return in.attack.rebuildPrimary(in.ctx)
}

// pauseMySQL pauses the primary, promotes its replica, and lets the old primary continue.
// One node still uses the old primary, and the drill also tries to write to it.
func pauseMySQL(in *injector, p step) error {
	left, old := in.Nodes[p.node], in.mysqls[in.primary]
	in.did("primary paused")
	ctx := context.WithoutCancel(in.ctx)
	if err := in.supersede(ctx, p.down); err != nil {
		return err
	}
	has, err := in.mysqls[in.primary].TransactionCount(ctx)
	if err != nil {
		return err
	}
	in.did("replica promoted, old primary continues, %s left behind", left.Name)
	in.leadMySQL(except(in.Nodes, left)...)
	asking, cancel := context.WithTimeout(ctx, p.last)
	defer cancel()
	if _, err := in.attack.mysql.ExecContext(asking, "INSERT INTO nodes (id, seen_at) VALUES ('left-behind', '2000-01-01')"); err == nil {
		in.broke("the old primary confirmed a write that nobody else has")
		sleep(asking, p.last)
	}
	in.leadMySQL(left)
	now, err := old.TransactionCount(ctx)
	in.did("%s led to the new primary, the old one has %d transactions that no other server has", left.Name, now-has)
	return errors.Join(err, in.attack.rebuildPrimary(ctx))
}

// failOverGroup kills the primary of a replication group, which then elects another one.
func failOverGroup(in *injector, _ step) error {
	old := in.mysqls[in.primary]
	old.Kill()
	in.did("primary killed")
	ctx := context.WithoutCancel(in.ctx)
	err := in.attack.until(ctx, "the group has another primary", func(ctx context.Context) bool {
		at := slices.IndexFunc(old.Members, func(m *servers.MySQL) bool { return m.IsPrimary(ctx) })
		if at >= 0 {
			in.mysqls[1], in.primary = old.Members[at], 1
		}
		return at >= 0
	})
	if err != nil {
		return err
	}
	in.leadMySQL(in.Nodes...)
	in.did("another one elected")
	if err = old.Restart(ctx); err != nil {
		return err
	}
	in.did("old primary started again")
	if err = old.JoinGroup(ctx, in.mysqls[1].Addr()); err == nil {
		in.did("it is a member again")
	}
	return err
}
