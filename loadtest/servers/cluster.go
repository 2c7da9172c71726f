package servers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// slots of a Redis Cluster.
const slots = 16384

// RedisCluster is a private Redis Cluster of masters, at first without replicas.
type RedisCluster struct {
	Nodes []*Redis // the masters, as they were started
	URL   string   // redis://127.0.0.1:port,127.0.0.1:port,…
	closers
}

// StartRedisCluster starts n masters that share the slots evenly, and returns
// when each of them says that the cluster is complete.
func StartRedisCluster(ctx context.Context, n int) (_ *RedisCluster, err error) {
	c := &RedisCluster{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("servers: start a Redis Cluster: %w", err), c.Close())
		}
	}()
	addrs := make([]string, n)
	for i := range n {
		node, bus, err := c.start(ctx)
		if err != nil {
			return nil, err
		}
		addrs[i] = node.Addr()
		if err := addSlots(ctx, node, i, n); err != nil {
			return nil, err
		}
		if err := c.meet(ctx, node, bus); err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	c.URL = "redis://" + strings.Join(addrs, ",")
	for _, node := range c.Nodes {
		if err := awaitCluster(ctx, node, n); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// start starts a node that knows no other, and returns the port of its bus too.
func (c *RedisCluster) start(ctx context.Context) (*Redis, int, error) {
	bus, err := freePort(ctx)
	if err != nil {
		return nil, 0, err
	}
	node, err := StartRedis(ctx, RedisOptions{ExtraArgs: append([]string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "2000",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", // a replica that has heard nothing is not shown
	}, asReplicator...)})
	if err == nil {
		c.closers = append(c.closers, node.Close)
	}
	return node, bus, err
}

// addSlots gives the master that is number i of n its share of the slots.
func addSlots(ctx context.Context, master *Redis, i, n int) error {
	if err := master.do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
		return err
	}
	// Without an epoch of its own each, they would have to sort that out first.
	return master.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
}

// meet makes the node known to all others at once: their gossip would take seconds.
func (c *RedisCluster) meet(ctx context.Context, node *Redis, bus int) error {
	for _, other := range c.Nodes {
		if err := other.do(ctx, "CLUSTER", "MEET", "127.0.0.1", node.port, bus).Err(); err != nil {
			return err
		}
	}
	return nil
}

// awaitCluster asks a node until it knows n nodes and all slots are served.
func awaitCluster(ctx context.Context, node *Redis, n int) error {
	return await(ctx, node.Addr()+" has a complete cluster", func() error {
		info, err := node.do(ctx, "CLUSTER", "INFO").Text()
		if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n))) {
			err = fmt.Errorf("it says: %s", info)
		}
		return err
	})
}
