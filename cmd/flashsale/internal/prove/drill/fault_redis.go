package drill

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// refuseWrites: Redis answers and takes no writes, as it is out of memory, or
// was made a replica of nobody, or has too few replicas.
func refuseWrites(n *nemesis, p step) error {
	rdb := lab.Redis(n.redises[n.active].Addr())
	defer func() { _ = rdb.Close() }()
	kind := []struct {
		name      string
		harm, end []any
	}{
		{"out of memory", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"a replica of nobody", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"it misses its replicas", []any{"CONFIG", "SET", "min-replicas-to-write", "9"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	}[p.variant]
	ctx, cancel := n.healing()
	defer cancel()
	if err := rdb.Do(ctx, kind.harm...).Err(); err != nil {
		return err
	}
	n.harms(harm, func(c *condition) { c.redis++ }, "Redis refuses writes (%s) for %.1fs", kind.name, p.last.Seconds())
	sleep(n.ctx, p.last)
	err := rdb.Do(ctx, kind.end...).Err()
	n.condition.change(loss, func(c *condition) { c.redis-- })
	return err
}

// failOver cuts the replica off from the primary, which continues to accept writes, and
// then promotes the replica. In variant 1, the primary is killed. It is started again for
// its next turn.
func failOver(n *nemesis, p step) error {
	return n.promote(p, func(ctx context.Context, from *servers.Redis, replica *redis.Client) error {
		if err := replica.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			return err
		}
		sleep(n.ctx, p.last) // the primary's writes of this time will be lost
		n.condition.change(loss, func(c *condition) { c.redis++ })
		how := ""
		if p.variant == 1 {
			from.Kill()
			how = ", and the old primary is dead"
		}
		for i := range n.Nodes {
			n.leadRedis(i)
		}
		n.did(fmt.Sprintf("Redis fails over, the last %.1fs of writes are lost%s; %s is sold out", p.last.Seconds(), how, n.skus[p.sku]))
		return lab.Promote(ctx, replica)
	})
}

// goOverApart promotes the replica while the primary lives. The nodes change to the replica
// one after another, and both servers accept writes until the last node has changed. One
// sale is sold out and has only released units. In variant 1, it is restocked.
func goOverApart(n *nemesis, p step) error {
	sku := n.skus[p.sku]
	return n.promote(p, func(ctx context.Context, _ *servers.Redis, replica *redis.Client) error {
		n.condition.change(loss, func(c *condition) { c.redis++ })
		n.did(fmt.Sprintf("a replica of Redis is promoted, %s goes over to it, and the others %.1fs after each other; %s is sold out",
			n.Nodes[p.node].Name, p.last.Seconds(), sku))
		err := lab.Promote(ctx, replica)
		for i := range nodeCount {
			switch {
			case i == 0:
			case p.variant == 1:
				n.keepLeft(few, p.last, sku)
			default:
				sleep(n.ctx, p.last)
			}
			n.leadRedis((p.node + i) % nodeCount)
		}
		return err
	})
}

// promote makes the idle Redis a replica of the active one. lead promotes the replica and
// leads the nodes to it. The two servers take turns, so that Redis fails back to a process
// that the nodes have seen before. One sale is sold out during the whole fault, because only
// there a buyer whose order Redis has forgotten could be refused.
func (n *nemesis) promote(p step, lead func(ctx context.Context, from *servers.Redis, replica *redis.Client) error) error {
	ctx, cancel := n.healing()
	defer cancel()
	from, to := n.redises[n.active], n.redises[1-n.active]
	replica := lab.Redis(to.Addr())
	defer func() { _ = replica.Close() }()
	if to.Pid() == 0 {
		if err := to.Restart(ctx); err != nil {
			return err
		}
	}
	if err := lab.Follow(ctx, replica, from.Addr()); err != nil {
		return err
	}
	sku := n.skus[p.sku]
	n.operator.leave(sku, true)
	defer n.operator.leave(sku, false)
	n.operator.stock(n.ctx, sku, 0)
	n.active = 1 - n.active
	if err := lead(ctx, from, replica); err != nil {
		return err
	}
	n.condition.change(loss, func(c *condition) { c.redis-- })
	n.keepLeft(0, 2*time.Second, sku)
	return nil
}

// partition leaves Redis alone to one node, and MySQL alone to the other nodes. One sale
// is sold out when the partition begins. The other nodes restock it.
func partition(n *nemesis, p step) error {
	sku := n.skus[p.sku]
	n.operator.leave(sku, true)
	defer n.operator.leave(sku, false)
	n.keepLeft(0, 500*time.Millisecond, sku)
	others := []int{(p.node + 1) % nodeCount, (p.node + 2) % nodeCount}
	for _, i := range others {
		n.cutRedis(i)
	}
	n.Nodes[p.node].MySQL.Cut()
	lacks := func(by int) func(*condition) {
		return func(c *condition) {
			c.noMySQL[p.node] += by
			for _, i := range others {
				c.noRedis[i] += by
			}
		}
	}
	n.harms(loss, lacks(1), "%s has Redis alone, the others have MySQL alone, for %.1fs", n.Nodes[p.node].Name, p.last.Seconds())
	n.keepLeft(1, p.last, sku)
	for _, i := range others {
		n.restoreRedis(i)
	}
	n.Nodes[p.node].MySQL.Restore()
	n.condition.change(loss, lacks(-1))
	return nil
}

// flush: Redis forgets everything.
func flush(n *nemesis, _ step) error {
	return n.command("FLUSHALL", func(rdb *redis.Client, ctx context.Context) error { return rdb.FlushAll(ctx).Err() })
}

// loseKey: Redis forgets one key of one sale, or the lock of its keeper.
func loseKey(n *nemesis, p step) error {
	sku := n.skus[p.sku]
	key := []string{"sale:{" + sku + "}", "sale:{" + sku + "}:holds", "sale:{" + sku + "}:buyers", "sale:{" + sku + "}:queue", "lock:{" + sku + "}"}[p.variant]
	return n.command("DEL "+key, func(rdb *redis.Client, ctx context.Context) error { return rdb.Del(ctx, key).Err() })
}

func (n *nemesis) command(name string, do func(*redis.Client, context.Context) error) error {
	rdb := lab.Redis(n.redises[n.active].Addr())
	defer func() { _ = rdb.Close() }()
	ctx, cancel := n.healing()
	defer cancel()
	err := do(rdb, ctx)
	n.harms(loss, nil, "Redis: %s", name)
	return err
}

// restartRedis: Redis is killed, and comes back from its log, or empty; or it
// is cut off from all nodes, and comes back as it was.
func restartRedis(n *nemesis, p step) error {
	ctx, cancel := n.healing()
	defer cancel()
	r := n.redises[n.active]
	what := []string{"killed, back from its log", "killed, back empty", "cut off from all nodes, back as it was"}[p.variant]
	if p.variant == 2 {
		n.cutAllRedis()
	} else {
		r.Kill()
	}
	n.harms(loss, func(c *condition) { c.redis++ }, "Redis %s after %.1fs", what, p.last.Seconds())
	sleep(n.ctx, p.last)
	var err error
	switch p.variant {
	case 0:
		err = r.Restart(ctx)
	case 1:
		err = r.RestartEmpty(ctx)
	case 2:
		n.restoreAllRedis()
	}
	n.condition.change(loss, func(c *condition) { c.redis-- })
	return err
}

// leaveQueue: MySQL stands still until orders wait in the queue, and then Redis
// is cut off with them. One sale is sold in direct mode until it is sold out,
// and has units again when Redis is back, with the old queue.
func leaveQueue(n *nemesis, p step) error {
	sku := n.skus[p.sku]
	n.operator.leave(sku, true)
	defer n.operator.leave(sku, false)
	n.operator.stock(n.ctx, sku, plenty)
	for _, node := range n.Nodes {
		node.MySQL.Freeze()
	}
	n.harms(loss, func(c *condition) { c.mysql++ }, "MySQL stands still for 0.4s, and Redis is cut off with the queue for %.1fs", p.last.Seconds())
	sleep(n.ctx, 400*time.Millisecond)
	n.cutAllRedis()
	for _, node := range n.Nodes {
		node.MySQL.Thaw()
	}
	n.condition.change(loss, func(c *condition) { c.redis++; c.mysql-- })
	n.keepLeft(0, p.last, sku)
	n.operator.stock(n.ctx, sku, 2*plenty)
	n.restoreAllRedis()
	n.did("Redis is back with the queue")
	n.condition.change(loss, func(c *condition) { c.redis-- })
	return nil
}

// holdUpChange: the last sale takes units on payment and is sold out, and from now
// on it takes them on order. The rebuild that goes with the change is held up, and
// the gate of before answers: it knows none of the orders that have no units.
func holdUpChange(n *nemesis, p step) error {
	sku := n.skus[skuCount-1]
	n.operator.leave(sku, true)
	defer n.operator.leave(sku, false)
	n.onPayment.Store(true)
	n.operator.stock(n.ctx, sku, few)
	sleep(n.ctx, time.Second)
	n.operator.stock(n.ctx, sku, 0)
	shut, end := while(func(piece []byte) bool { return shuts(piece, sku) })
	defer end()
	var held []*wire.Catch
	for _, node := range n.Nodes {
		held = append(held, node.Redis.HoldAll(shut))
	}
	n.harms(loss, nil, "%s takes its units on order again, and its rebuild is held up for %.1fs", sku, p.last.Seconds())
	n.onPayment.Store(false)
	n.later(func() { n.operator.stock(n.ctx, sku, 0) }) // it waits for the gate
	sleep(n.ctx, p.last)
	for _, h := range held {
		h.Pass()
	}
	return nil
}

// shuts tells whether a script shuts the gate of a sale: of those with two keys it is
// the one that has the sale and its queue.
func shuts(piece []byte, sku string) bool {
	_, keys, found := bytes.Cut(piece, []byte("\r\n$1\r\n2\r\n"))
	sale := "sale:{" + sku + "}"
	return found && isScript(piece) && bytes.HasPrefix(keys, fmt.Appendf(nil, "$%d\r\n%s\r\n$%d\r\n%s:queue", len(sale), sale, len(sale)+6, sale))
}
