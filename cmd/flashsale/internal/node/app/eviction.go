package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

var errEviction = errors.New("keys of the gate may be evicted")

// checkEviction returns errEviction if Redis may evict keys without an expiry when its
// memory is full. It would evict keys of the gate, again and again after each rebuild.
//
// If the policy cannot be read, as on a managed Redis without CONFIG, checkEviction
// returns nil, and the operator has to check it.
func (a *App) checkEviction(ctx context.Context) error {
	check := func(ctx context.Context, rdb *redis.Client) error {
		settings, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result()
		if err != nil {
			a.cfg.Log.Debug("eviction policy of Redis could not be read: check by hand that maxmemory-policy is noeviction", "error", err)
			return nil
		}
		policy := settings["maxmemory-policy"]
		switch {
		case strings.HasPrefix(policy, "allkeys-"):
			return fmt.Errorf("redis at %s: %w when memory is full: maxmemory-policy is %s: set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)",
				rdb.Options().Addr, errEviction, policy)
		case strings.HasPrefix(policy, "volatile-"):
			a.cfg.Log.Warn("Redis may evict locks and idempotency keys when its memory is full: set maxmemory-policy to noeviction", "policy", policy)
		}
		return nil
	}
	return eachMaster(ctx, a.rdb, check)
}

// eachMaster calls ask for each master of a cluster, or for the only one.
func eachMaster(ctx context.Context, rdb redis.UniversalClient, ask func(context.Context, *redis.Client) error) error {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, ask)
	case *redis.Client:
		return ask(ctx, rdb)
	}
	return nil
}
