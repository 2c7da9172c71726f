package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// slots of a Redis Cluster.
const slots = 16384

// RedisCluster is a private Redis Cluster of masters without replicas.
type RedisCluster struct {
	Nodes []*Redis
	URL   string // redis://127.0.0.1:port,127.0.0.1:port,…
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
		bus, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		node, err := StartRedis(ctx, RedisOptions{ExtraArgs: []string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "2000",
		}})
		if err != nil {
			return nil, err
		}
		c.Nodes, c.closers = append(c.Nodes, node), append(c.closers, node.Close)
		addrs[i] = node.Addr()
		if err := c.join(ctx, i, n, bus); err != nil {
			return nil, err
		}
	}
	c.URL = "redis://" + strings.Join(addrs, ",")
	for _, node := range c.Nodes {
		if err := awaitCluster(ctx, node.Addr(), n); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// join gives node i its share of the slots and makes the first node known to it.
func (c *RedisCluster) join(ctx context.Context, i, n, bus int) error {
	rdb := connect(c.Nodes[i].Addr())
	defer rdb.Close()
	if err := rdb.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
		return err
	}
	// Without an epoch of its own each, they would have to sort that out first.
	if err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	if i == 0 {
		return nil
	}
	first := connect(c.Nodes[0].Addr())
	defer first.Close()
	host, port, err := net.SplitHostPort(c.Nodes[i].Addr())
	if err != nil {
		return err
	}
	return first.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err()
}

// awaitCluster asks a node until it knows n nodes and all slots are served.
func awaitCluster(ctx context.Context, addr string, n int) error {
	rdb := connect(addr)
	defer rdb.Close()
	return await(ctx, addr+" has a complete cluster", func() error {
		info, err := rdb.ClusterInfo(ctx).Result()
		if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n))) {
			err = fmt.Errorf("it says: %s", info)
		}
		return err
	})
}
