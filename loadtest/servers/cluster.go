package servers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// RedisCluster is a private Redis Cluster. It starts with masters only.
type RedisCluster struct {
	Nodes []*Redis // the first masters
	URL   string   // redis://127.0.0.1:port,127.0.0.1:port,…
	closers
}

// StartRedisCluster starts n masters with an equal share of the slots. It returns when
// each master reports that the cluster is complete.
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

// start starts a node outside the cluster. It also returns the port of the node's
// cluster bus.
func (c *RedisCluster) start(ctx context.Context) (*Redis, int, error) {
	bus, err := freePort(ctx)
	if err != nil {
		return nil, 0, err
	}
	node, err := StartRedis(ctx, RedisConfig{ExtraArgs: append([]string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "2000",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", // Redis hides a replica until it has received a ping
	}, asReplicator...)})
	if err == nil {
		c.closers = append(c.closers, node.Close)
	}
	return node, bus, err
}

// addSlots assigns master number i of n its share of the slots.
func addSlots(ctx context.Context, master *Redis, i, n int) error {
	if err := master.do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
		return err
	}
	// Different epochs prevent a conflict that the masters would first have to resolve.
	return master.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
}

// meet introduces the node to every other node. Without that, gossip would take
// seconds.
func (c *RedisCluster) meet(ctx context.Context, node *Redis, bus int) error {
	for _, other := range c.Nodes {
		if err := other.do(ctx, "CLUSTER", "MEET", "127.0.0.1", node.port, bus).Err(); err != nil {
			return err
		}
	}
	return nil
}

// awaitCluster waits until a node knows n nodes and all slots are served.
func awaitCluster(ctx context.Context, node *Redis, n int) error {
	return await(ctx, "wait for "+node.Addr()+" to see a complete cluster", func() error {
		info, err := node.do(ctx, "CLUSTER", "INFO").Text()
		if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n))) {
			err = fmt.Errorf("the node reports %s, want cluster_state:ok and all nodes", info)
		}
		return err
	})
}
