package inventory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// Standalone is the name of a Redis that is no cluster, and of a cluster of which no
// master is known.
const Standalone = "redis"

// A Master is a Redis that takes writes, as Probe has found it.
type Master struct {
	Name string // Standalone, or host:port of a cluster's master
	Err  error  // why it did not take a write; nil: it did
}

const (
	probeKeys = 1024 // a master that owns under half a percent of a cluster's slots may be missed
	probedFor = 10 * time.Second
)

// Probe writes one small key to each master of the gate's Redis, all at once,
// and asks each for its replication id. A read would tell nothing: a Redis
// without memory, one whose disk is full and one that was demoted all answer
// reads. It takes as long as the slowest master, and ctx bounds it.
func (k Keeping) Probe(ctx context.Context) []Master {
	cluster, ok := k.rdb.(*redis.ClusterClient)
	if !ok {
		return []Master{k.probe(ctx, Standalone, keys.Probe(0), k.rdb)}
	}
	found := map[string]bool{}
	var masters []Master
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range probeKeys {
		key := keys.Probe(i)
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
		cluster.ReloadState(ctx) // a replica may have taken over: the client asks by itself once a minute
	}
	return masters
}

func (k Keeping) probe(ctx context.Context, name, key string, node redis.Cmdable) Master {
	// By the client of the whole: slots move, and it knows where to.
	err := k.rdb.Set(ctx, key, 1, probedFor).Err()
	if err == nil {
		k.identify(ctx, name, node)
	}
	return Master{name, err}
}

// Master returns the name of the master that has the gate of sku, or Standalone if Redis is
// no cluster. It returns an error if the slots of the cluster are not known yet.
func (g *Gate) Master(ctx context.Context, sku string) (string, error) {
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
