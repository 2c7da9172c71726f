package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

var errEviction = errors.New("stock may be dropped")

// checkEviction refuses a Redis that may throw stock away when its memory is
// full. Without stock the gate would be rebuilt, and thrown away again.
//
// Where the setting can't be read (a managed Redis without CONFIG) it is the
// operator's to know.
func (a *App) checkEviction(ctx context.Context) error {
	check := func(ctx context.Context, rdb *redis.Client) error {
		settings, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result()
		if err != nil {
			a.cfg.Log.Debug("can't read Redis's eviction policy", "error", err)
			return nil
		}
		policy := settings["maxmemory-policy"]
		switch {
		case strings.HasPrefix(policy, "allkeys-"):
			return fmt.Errorf("redis at %s: %w: maxmemory-policy %s does so when memory is full: set maxmemory-policy noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)",
				rdb.Options().Addr, errEviction, policy)
		case strings.HasPrefix(policy, "volatile-"):
			a.cfg.Log.Warn("Redis may drop locks and idempotency keys when memory is full; set maxmemory-policy noeviction", "policy", policy)
		}
		return nil
	}
	switch rdb := a.rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, check)
	case *redis.Client:
		return check(ctx, rdb)
	}
	return nil
}
