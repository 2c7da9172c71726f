package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// AddReplica starts a replica of a master. It returns when the replica follows and all
// masters know it.
func (c *RedisCluster) AddReplica(ctx context.Context, master *Redis) (_ *Redis, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("servers: add a replica to a Redis Cluster: %w", err)
		}
	}()
	if err := master.allow(ctx, true); err != nil {
		return nil, err
	}
	replica, bus, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.meet(ctx, replica, bus); err != nil {
		return nil, err
	}
	known := len(c.closers) // number of started nodes
	for _, node := range append([]*Redis{replica}, c.Nodes...) {
		if err := awaitCluster(ctx, node, known); err != nil {
			return nil, err
		}
	}
	id, err := master.do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return nil, err
	}
	if err := replica.do(ctx, "CLUSTER", "REPLICATE", id).Err(); err != nil {
		return nil, err
	}
	if err := await(ctx, "wait for the replica to follow", func() error { return replicates(ctx, replica.Addr(), "master_link_status", "up") }); err != nil {
		return nil, err
	}
	return replica, c.awaitSlots(ctx, nil, "the replica", func(all []string) bool { return slices.Contains(all, replica.Addr()) })
}

// Failover kills the master. It returns when all nodes know the replica as the master
// of these slots.
func (c *RedisCluster) Failover(ctx context.Context, master, replica *Redis) error {
	master.Kill()
	if err := replica.do(ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		return fmt.Errorf("servers: fail over in a Redis Cluster: %w", err)
	}
	return c.awaitSlots(ctx, master, "the failover", func(all []string) bool { return !slices.Contains(all, master.Addr()) })
}

// awaitSlots waits until each master except gone reports addresses of masters and
// replicas that right accepts.
func (c *RedisCluster) awaitSlots(ctx context.Context, gone *Redis, what string, right func(all []string) bool) error {
	for _, node := range c.Nodes {
		if node == gone {
			continue
		}
		if err := await(ctx, "wait for "+node.Addr()+" to learn of "+what, func() error {
			ranges, err := slotsBy(ctx, node)
			var all []string
			for _, r := range ranges {
				for _, n := range r.Nodes {
					all = append(all, n.Addr)
				}
			}
			if err == nil && !right(all) {
				err = fmt.Errorf("the node reports the slots %v, want the moved slot at the other master", all)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// slotsBy returns the owners of all slots as node reports them. go-redis uses the same
// command.
func slotsBy(ctx context.Context, node *Redis) ([]redis.ClusterSlot, error) {
	rdb := connect(node.Addr())
	defer rdb.Close()
	return rdb.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS also lists replicas that have not received anything
}

// Owner returns the master that owns the slot of key.
func (c *RedisCluster) Owner(ctx context.Context, key string) (*Redis, error) {
	owner, _, err := c.slot(ctx, key)
	return owner, err
}

// slot returns the slot of key and its master.
func (c *RedisCluster) slot(ctx context.Context, key string) (*Redis, int64, error) {
	slot, err := c.Nodes[0].do(ctx, "CLUSTER", "KEYSLOT", key).Int64()
	if err != nil {
		return nil, 0, fmt.Errorf("servers: find the slot of %s: %w", key, err)
	}
	ranges, err := slotsBy(ctx, c.Nodes[0])
	for _, r := range ranges {
		for _, node := range c.Nodes {
			if int64(r.Start) <= slot && slot <= int64(r.End) && r.Nodes[0].Addr == node.Addr() {
				return node, slot, nil
			}
		}
	}
	return nil, 0, errors.Join(fmt.Errorf("servers: no master owns the slot of %s", key), err)
}

// A SlotMove moves a slot from one master to another, key by key. The slot can be used
// while it moves.
type SlotMove struct {
	cluster  *RedisCluster
	from, to *Redis
	slot     int64
	toID     string
}

// BeginMove starts to move the slot of key. It moves no keys yet.
func (c *RedisCluster) BeginMove(ctx context.Context, key string, to *Redis) (*SlotMove, error) {
	from, slot, err := c.slot(ctx, key)
	if err != nil {
		return nil, err
	}
	m := &SlotMove{cluster: c, from: from, to: to, slot: slot}
	fromID, err := from.do(ctx, "CLUSTER", "MYID").Text()
	if err == nil {
		m.toID, err = to.do(ctx, "CLUSTER", "MYID").Text()
	}
	if err == nil {
		err = to.do(ctx, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", fromID).Err()
	}
	if err == nil {
		err = from.do(ctx, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.toID).Err()
	}
	if err != nil {
		return nil, fmt.Errorf("servers: begin to move slot %d: %w", m.slot, err)
	}
	return m, nil
}

// Keys returns the keys of the slot that have not moved yet, at most 1,000.
func (m *SlotMove) Keys(ctx context.Context) ([]string, error) {
	return m.from.do(ctx, "CLUSTER", "GETKEYSINSLOT", m.slot, 1000).StringSlice()
}

// Move moves one key.
func (m *SlotMove) Move(ctx context.Context, key string) error {
	return m.from.do(ctx, "MIGRATE", "127.0.0.1", m.to.port, key, 0, 10_000).Err()
}

// End assigns the slot to its new master. Call it after all keys have moved.
func (m *SlotMove) End(ctx context.Context) error {
	for _, node := range append([]*Redis{m.to, m.from}, m.cluster.Nodes...) {
		if err := node.do(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID).Err(); err != nil {
			return fmt.Errorf("servers: end the move of slot %d: %w", m.slot, err)
		}
	}
	return nil
}

// do runs a command on a new connection.
func (r *Redis) do(ctx context.Context, command ...any) *redis.Cmd {
	rdb := connect(r.Addr())
	defer rdb.Close()
	return rdb.Do(ctx, command...)
}
