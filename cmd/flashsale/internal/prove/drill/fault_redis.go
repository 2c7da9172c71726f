package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// redisAway is the state while no node can write to Redis.
func redisAway(c *brokenState, by int) { c.redis += by }

// refuseWrites makes Redis answer and refuse writes, because it is out of memory, is a
// replica of an unreachable server, or has too few replicas.
func refuseWrites(in *injector, p step) error {
	kind := []struct {
		name       string
		begin, end []any
	}{
		{"out of memory", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"a replica of an unreachable server", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"it misses its replicas", []any{"CONFIG", "SET", "min-replicas-to-write", "9"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	}[p.variant]
	if err := in.command(kind.begin...); err != nil {
		return err
	}
	end := func(context.Context) error { return in.command(kind.end...) }
	return in.lasts(p, lost, redisAway, end, "Redis refuses writes (%s)", kind.name)
}

// command runs a command on the current Redis.
func (in *injector) command(args ...any) error {
	rdb := lab.RedisClient(in.redises[in.active].Addr())
	defer func() { _ = rdb.Close() }()
	ctx, cancel := in.healing()
	defer cancel()
	return rdb.Do(ctx, args...).Err()
}

func flush(in *injector, _ step) error { return in.forget("FLUSHALL") }

func loseKey(in *injector, p step) error {
	sku := in.skus[p.sku]
	return in.forget("DEL", []string{"sale:{" + sku + "}", "sale:{" + sku + "}:holds", "sale:{" + sku + "}:buyers", "sale:{" + sku + "}:queue", "lock:{" + sku + "}"}[p.variant])
}

func (in *injector) forget(args ...any) error {
	err := in.command(args...)
	in.begin(lost, nil, "Redis: %v", args)
	return err
}

// restartRedis kills Redis and restarts it with its log or empty. In variant 2 it cuts
// Redis off from all nodes, and Redis returns unchanged.
func restartRedis(in *injector, p step) error {
	r := in.redises[in.active]
	if p.variant == 2 {
		in.cutAllRedis()
		return in.lasts(p, lost, redisAway, quietly(in.restoreAllRedis), "Redis cut off from all nodes, back as it was")
	}
	r.Kill()
	if p.variant == 0 {
		return in.lasts(p, lost, redisAway, r.Restart, "Redis killed, back from its log")
	}
	return in.lasts(p, lost, redisAway, r.RestartEmpty, "Redis killed, back empty")
}

// slowRedis delays every answer of Redis.
func slowRedis(in *injector, p step) error {
	late := in.attack.between(50*time.Millisecond, 250*time.Millisecond).Round(time.Millisecond)
	delay := func(d time.Duration) {
		for _, n := range in.Nodes {
			n.Redis.Delay(wire.Answers, d, d/3)
		}
	}
	delay(late)
	return in.lasts(p, mended, nil, quietly(func() { delay(0) }), "Redis answers %v later", late)
}

// loseRedisAnswers loses all answers of Redis. Requests still arrive.
func loseRedisAnswers(in *injector, p step) error {
	var mends []func()
	for _, n := range in.Nodes {
		mends = append(mends, n.Redis.DropTraffic(wire.Answers))
	}
	return in.lasts(p, faulted, nil, quietly(func() {
		for _, mend := range mends {
			mend()
		}
	}), "Redis's answers cut off")
}

// failOver cuts the replica off from the primary, which continues to accept writes, and
// then promotes the replica. In variant 1, the primary is killed. Its next turn restarts
// it.
func failOver(in *injector, p step) error {
	return in.promote(p, func(ctx context.Context, from *servers.Redis, replica *redis.Client) error {
		if err := unfollow(ctx, replica); err != nil {
			return err
		}
		in.did("a replica of Redis is cut off")
		err := in.wait(p) // writes to the primary during this time are lost
		in.state.change(lost, func(c *brokenState) { c.redis++ })
		how := ""
		if p.variant == 1 {
			from.Kill()
			how = ", and the old primary is dead"
			sleep(in.ctx, p.down)
		}
		for i := range in.Nodes {
			in.leadRedis(i)
		}
		in.did("Redis fails over, its last writes are lost%s", how)
		return errors.Join(err, lab.Promote(ctx, replica))
	})
}

// takeOver kills Redis's primary, promotes its replica, and leads the nodes to it.
func (in *injector) takeOver(replica *redis.Client) error {
	ctx, cancel := in.healing()
	defer cancel()
	in.redises[in.active].Kill()
	in.active = 1 - in.active
	err := lab.Promote(ctx, replica)
	for i := range in.Nodes {
		in.leadRedis(i)
	}
	in.did("primary killed, replica promoted")
	return err
}

// goOverApart promotes the replica while the primary lives. The nodes change to the replica
// one after another, and both servers accept writes until the last node has changed. One
// sale is sold out when the fault begins, so it can sell only units that closed orders release.
// In variant 1, the operator restocks it while the nodes change.
func goOverApart(in *injector, p step) error {
	sku := in.skus[p.sku]
	return in.promote(p, func(ctx context.Context, _ *servers.Redis, replica *redis.Client) error {
		in.state.change(lost, func(c *brokenState) { c.redis++ })
		in.did("a replica of Redis is promoted, %s changes to it, and the others %.1fs after each other; %s is sold out",
			in.Nodes[p.node].Name, p.last.Seconds(), sku)
		err := lab.Promote(ctx, replica)
		for i := range nodeCount {
			switch {
			case i == 0:
			case p.variant == 1:
				in.operator.keepLeft(in.ctx, few, p.last, sku)
			default:
				sleep(in.ctx, p.last)
			}
			in.leadRedis((p.node + i) % nodeCount)
		}
		return err
	})
}

// promote makes the idle Redis a replica of the active one. lead promotes the replica and leads
// the nodes to it. The two servers take turns, so Redis also fails back to a process that the
// nodes have used before. One sale is sold out during the whole fault, because a buyer whose
// order Redis has forgotten could be refused only in a sold-out sale.
func (in *injector) promote(p step, lead func(ctx context.Context, from *servers.Redis, replica *redis.Client) error) error {
	ctx, cancel := in.healing()
	defer cancel()
	from := in.redises[in.active]
	replica, err := in.replica(ctx)
	if err != nil {
		return err
	}
	sku := in.skus[p.sku]
	defer in.operator.leave(sku)()
	in.operator.stock(in.ctx, sku, 0)
	in.active = 1 - in.active
	if err := lead(ctx, from, replica); err != nil {
		return err
	}
	in.state.change(lost, func(c *brokenState) { c.redis-- })
	in.operator.keepLeft(in.ctx, 0, 2*time.Second, sku)
	return nil
}

// cutRedis cuts a node off from Redis and counts one more reason for the cut.
func (in *injector) cutRedis(i int) {
	in.state.mu.Lock()
	defer in.state.mu.Unlock()
	in.state.cuts[i]++
	in.Nodes[i].Redis.Cut()
}

// restoreRedis removes one reason, and restores the connection after the last one.
func (in *injector) restoreRedis(i int) {
	in.state.mu.Lock()
	defer in.state.mu.Unlock()
	if in.state.cuts[i]--; in.state.cuts[i] == 0 {
		in.Nodes[i].Redis.Restore()
	}
}

func (in *injector) cutAllRedis() {
	for i := range in.Nodes {
		in.cutRedis(i)
	}
}

func (in *injector) restoreAllRedis() {
	for i := range in.Nodes {
		in.restoreRedis(i)
	}
}

// leadRedis leads a node to the active Redis. A node that is cut off stays cut off.
func (in *injector) leadRedis(i int) {
	in.state.mu.Lock()
	defer in.state.mu.Unlock()
	in.Nodes[i].Redis.Redirect(in.redises[in.active].Addr())
	if in.state.cuts[i] > 0 {
		in.Nodes[i].Redis.Cut()
	}
}

// partition leaves one node with Redis alone, and the other nodes with MySQL alone. One
// sale is sold out when the partition begins. The other nodes restock it.
func partition(in *injector, p step) error {
	sku := in.skus[p.sku]
	defer in.operator.leave(sku)()
	in.operator.keepLeft(in.ctx, 0, 500*time.Millisecond, sku)
	others := []int{(p.node + 1) % nodeCount, (p.node + 2) % nodeCount}
	for _, i := range others {
		in.cutRedis(i)
	}
	in.Nodes[p.node].MySQL.Cut()
	lacks := func(c *brokenState, by int) {
		c.noMySQL[p.node] += by
		for _, i := range others {
			c.noRedis[i] += by
		}
	}
	p.until = func(ctx context.Context) error { in.operator.keepLeft(ctx, 1, p.last, sku); return nil }
	return in.lasts(p, lost, lacks, quietly(func() {
		for _, i := range others {
			in.restoreRedis(i)
		}
		in.Nodes[p.node].MySQL.Restore()
	}), "%s has Redis alone, the others have MySQL alone", in.Nodes[p.node].Name)
}

// leaveQueue freezes MySQL until orders wait in the queue, and then cuts Redis off with
// these orders. One sale is sold out in direct mode. It is restocked just before Redis
// returns with the old queue.
func leaveQueue(in *injector, p step) error {
	sku := in.skus[p.sku]
	defer in.operator.leave(sku)()
	in.operator.stock(in.ctx, sku, plenty)
	for _, node := range in.Nodes {
		node.MySQL.Freeze()
	}
	in.begin(lost, func(c *brokenState) { c.mysql++ }, "MySQL stands still for 0.4s, and Redis is cut off with the queue for %.1fs", p.last.Seconds())
	sleep(in.ctx, 400*time.Millisecond)
	in.cutAllRedis()
	for _, node := range in.Nodes {
		node.MySQL.Thaw()
	}
	in.state.change(lost, func(c *brokenState) { c.redis++; c.mysql-- })
	in.operator.keepLeft(in.ctx, 0, p.last, sku)
	in.operator.stock(in.ctx, sku, 2*plenty)
	in.restoreAllRedis()
	in.did("Redis is back with the queue")
	in.state.change(lost, func(c *brokenState) { c.redis-- })
	return nil
}

// holdUpChange changes the last sale, which is sold out, from units on payment to units
// on order. The rebuild that belongs to the change is delayed, so the old gate answers.
// That gate does not have the orders without units.
func holdUpChange(in *injector, p step) error {
	sku := in.skus[skuCount-1]
	defer in.operator.leave(sku)()
	in.operator.onPayment.Store(true)
	in.operator.stock(in.ctx, sku, few)
	sleep(in.ctx, time.Second)
	in.operator.stock(in.ctx, sku, 0)
	shut, end := while(func(piece []byte) bool { return shuts(piece, sku) })
	defer end()
	var held []*wire.Catch
	for _, node := range in.Nodes {
		held = append(held, node.Redis.HoldAll(shut))
	}
	in.begin(lost, nil, "%s takes its units on order again, and its rebuild is held up for %.1fs", sku, p.last.Seconds())
	in.operator.onPayment.Store(false)
	in.operator.later(func() { in.operator.stock(in.ctx, sku, 0) }) // this call waits for the rebuilt gate
	sleep(in.ctx, p.last)
	for _, caught := range held {
		caught.Pass()
	}
	return nil
}

// shuts reports whether piece is the script that shuts the gate of sku. It is the only script
// with the sale as its single key and one argument.
func shuts(piece []byte, sku string) bool {
	sale := "sale:{" + sku + "}"
	_, arguments, found := bytes.Cut(piece, fmt.Appendf(nil, "\r\n$1\r\n1\r\n$%d\r\n%s\r\n", len(sale), sale))
	return found && isScript(piece) && oneArgument.Match(arguments)
}

var oneArgument = regexp.MustCompile(`^\$[0-9]+\r\n[0-9]+\r\n(?:\*|$)`)
