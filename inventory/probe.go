package inventory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// Standalone is the name of a Redis that is not a cluster, and of a cluster whose masters
// are unknown.
const Standalone = "redis"

// A Master is the result of the probe of one master.
type Master struct {
	Name string // Standalone, or host:port of a master of a cluster
	Err  error  // error of the write, or nil
}

const (
	probeKeys = 1024 // ProbeMasters may miss a master that owns less than 0.5 % of a cluster's slots
	probedFor = 10 * time.Second
)

// ProbeMasters writes one small key to each master of the gate's Redis, all at the same time,
// and records each master's replication id. A read would prove nothing: a Redis without
// memory, with a full disk or demoted to a replica still answers reads. ProbeMasters takes as
// long as the slowest master, and at most until ctx ends.
func (k KeeperGate) ProbeMasters(ctx context.Context) []Master {
	cluster, ok := k.rdb.(*redis.ClusterClient)
	if !ok {
		return []Master{k.probe(ctx, Standalone, k.cfg.Prefix+keys.Probe(0), k.rdb)}
	}
	found := map[string]bool{}
	var masters []Master
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range probeKeys {
		key := k.cfg.Prefix + keys.Probe(i)
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			all.Wait()
			return []Master{{Name: Standalone, Err: err}}
		}
		name := node.Options().Addr
		if found[name] {
			continue
		}
		found[name] = true
		all.Go(func() {
			m := k.probe(ctx, name, key, node)
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, m)
		})
	}
	all.Wait()
	if slices.ContainsFunc(masters, func(m Master) bool { return m.Err != nil }) {
		cluster.ReloadState(ctx) // a replica may have been promoted; the client itself reloads only once a minute
	}
	return masters
}

func (k KeeperGate) probe(ctx context.Context, name, key string, node redis.Cmdable) Master {
	// The cluster client writes the key, because it follows a slot that has moved.
	err := k.rdb.Set(ctx, key, 1, probedFor).Err()
	if err == nil {
		k.identify(ctx, name, node)
	}
	return Master{name, err}
}

// MasterOf returns the name of the master that has the gate of sku, or Standalone if Redis
// is not a cluster. It returns an error if the cluster's slots are not known yet.
func (g *Gate) MasterOf(ctx context.Context, sku string) (string, error) {
	cluster, ok := g.rdb.(*redis.ClusterClient)
	if !ok {
		return Standalone, nil
	}
	node, err := cluster.MasterForKey(ctx, keys.Sale(sku))
	if err != nil {
		return Standalone, err
	}
	return node.Options().Addr, nil
}
