package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func examineRedis(ctx context.Context, rdb redis.UniversalClient, plan Plan) []Finding {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return []Finding{{Level: Bad, Store: "redis", What: "does not answer: " + err.Error(),
			Why: "without Redis a node sells slowly, or not at all", Do: "start it, or correct --redis"}}
	}
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return examineMaster(ctx, rdb.(*redis.Client), plan)
	}
	var mu sync.Mutex
	var found []Finding
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		ofMaster := examineMaster(ctx, master, plan)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range ofMaster {
			f.Store += " " + master.Options().Addr
			found = append(found, f)
		}
		return nil
	})
	if err != nil {
		found = append(found, Finding{Level: Bad, Store: "redis", What: "the cluster does not answer: " + err.Error(),
			Why: "the SKUs of a missing master cannot be sold", Do: "CLUSTER INFO on any node lists what is missing"})
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return strings.Compare(a.Store, b.Store) })
	return found
}

// examineMaster examines one server.
func examineMaster(ctx context.Context, rdb *redis.Client, plan Plan) []Finding {
	found := []Finding{latency(ctx, rdb), rights(ctx, rdb, plan)}
	settings := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "maxclients", "min-replicas-to-write"} {
		got, err := rdb.ConfigGet(ctx, name).Result()
		if err != nil { // some managed Redis services have no CONFIG
			return append(found, Finding{Level: Unknown, Store: "redis", What: "its settings can't be read: " + err.Error(),
				Why: "it is not known whether it keeps its data, and what it evicts when memory is full",
				Do:  "make sure that it has appendonly yes, appendfsync always, maxmemory-policy noeviction"})
		}
		settings[name] = got[name]
	}
	found = append(found, persistence(settings), eviction(settings), clients(settings, plan))
	if plan.Sentinel {
		found = append(found, replicas(settings))
	}
	return found
}

// rights checks that the account may use every command that a node sends.
func rights(ctx context.Context, rdb *redis.Client, plan Plan) Finding {
	refused, _ := plan.Refused(ctx, rdb) // latency reports the error
	f := Finding{Level: OK, Store: "redis", What: "accepts every command of a node, and INFO contains master_replid"}
	if len(refused) > 0 {
		f.What = "refuses " + strings.Join(refused, ", ")
	}
	return f.unless(len(refused) == 0, Bad,
		"without INFO a failover that lost orders is not noticed at once, without PUBLISH and SUBSCRIBE orders take up to a second, and without the rest nothing is sold",
		"ACL SETUSER with the rights that OPERATIONS.md lists, for the account in --redis")
}

// replicas checks that a master that Sentinel has replaced stops accepting writes.
func replicas(settings map[string]string) Finding {
	f := Finding{Level: OK, Store: "redis", What: "min-replicas-to-write " + settings["min-replicas-to-write"]}
	least, _ := strconv.Atoi(settings["min-replicas-to-write"])
	return f.unless(least > 0, Warn,
		"an old master that is cut off from its replicas continues to accept orders, and they are lost when it rejoins",
		"min-replicas-to-write 1 on the master and on each replica; have two replicas, or the loss of one stops the gate")
}

// slow is the median above which the doctor warns. A pass of the keeper takes several round
// trips.
const slow = 2 * time.Millisecond

func latency(ctx context.Context, rdb *redis.Client) Finding {
	var trips []time.Duration
	for range 9 {
		began := time.Now()
		if err := rdb.Ping(ctx).Err(); err == nil {
			trips = append(trips, time.Since(began))
		}
	}
	if len(trips) == 0 {
		return Finding{Level: Bad, Store: "redis", What: "no longer answers", Do: "see its log"}
	}
	slices.Sort(trips)
	median := trips[len(trips)/2]
	f := Finding{Level: OK, Store: "redis", What: fmt.Sprintf("answers in %s", median.Round(time.Microsecond))}
	return f.unless(median <= slow, Warn, "each order takes several round trips", "run nodes and Redis in one place")
}

func persistence(settings map[string]string) Finding {
	on, sync := settings["appendonly"], settings["appendfsync"]
	f := Finding{Level: OK, Store: "redis", What: fmt.Sprintf("appendonly %s, appendfsync %s", on, sync)}
	const do = "appendonly yes, appendfsync always: reservations are batched, which makes it cheap"
	if on != "yes" {
		return f.unless(false, Bad,
			"a restart forgets accepted orders that are not in MySQL yet, and buyers get 503 during the rebuild", do)
	}
	return f.unless(sync == "always", Warn,
		"a crash loses up to the last second: orders answered with 202 are gone, and their buyers must try again", do)
}

func eviction(settings map[string]string) Finding {
	policy := settings["maxmemory-policy"]
	f := Finding{Level: OK, Store: "redis", What: "maxmemory-policy " + policy}
	const do = "CONFIG SET maxmemory-policy noeviction, and in redis.conf"
	f = f.unless(!strings.HasPrefix(policy, "allkeys-"), Bad,
		"if memory is full, Redis drops stock, and the rebuilt gate is dropped again: serve refuses to start", do)
	return f.unless(!strings.HasPrefix(policy, "volatile-"), Warn, "if memory is full, Redis drops locks and buckets of the limiter", do)
}

func clients(settings map[string]string, plan Plan) Finding {
	limit, _ := strconv.Atoi(settings["maxclients"])
	need := plan.Nodes * plan.RedisConnections
	f := Finding{Level: OK, Store: "redis", What: fmt.Sprintf("maxclients %d, of which %d nodes take up to %d", limit, plan.Nodes, need)}
	return f.unless(need <= limit, Bad, "nodes are refused at the height of a sale", fmt.Sprintf("maxclients %d or more", need*2))
}
