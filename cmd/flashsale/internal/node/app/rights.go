package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// commands contains every command that a node sends to Redis, itself or in a script, with
// arguments that leave nothing behind. Keys and channels begin like the keys and channels of a
// node, because an account may be limited to such patterns. No SKU is named ":rights".
const commands = `PING; TIME; INFO replication; EVAL return(0) 0; EVALSHA 0 0;
SET probe:{:rights} 1 PX 1; SET rate:{:rights} 1 PX 1; SET lock:{:rights} 1 PX 1; GET lock:{:rights}; EXISTS lock:{:rights}; PTTL lock:{:rights};
PEXPIRE lock:{:rights} 1; EXPIRE lock:{:rights} 1; PERSIST lock:{:rights}; DEL lock:{:rights};
ZADD lock:{:rights} XX 1 m; ZSCORE lock:{:rights} m; ZRANGE lock:{:rights} 0 0; ZREVRANGE lock:{:rights} 0 0; ZREM lock:{:rights} m;
HSET sale:{:rights} f 1; HINCRBY sale:{:rights} f 1; HGET sale:{:rights} f; HMGET sale:{:rights} f; HEXISTS sale:{:rights} f; HLEN sale:{:rights};
HSCAN sale:{:rights} 0; HDEL sale:{:rights} f; SADD sale:{:rights} m; RENAME sale:{:rights} sale:{:rights}:set; SCARD sale:{:rights}:set;
UNLINK sale:{:rights}:set; XADD sale:{:rights} NOMKSTREAM * f v; XLEN sale:{:rights}; XRANGE sale:{:rights} - +; XDEL sale:{:rights} 0-1;
PUBLISH orders:notice:rights []; PUBLISH lock-client:rights x`

// rightsAge is the time after which a node tries its rights again.
const rightsAge = 5 * time.Second

// subscriptions are channels to which a node subscribes.
var subscriptions = []string{inventory.WakeChannel, "orders:hint", "orders:notice:rights", "lock-client:rights"}

// Refused returns the commands that the Redis rdb does not know, or that the account may not use.
// INFO without a master_replid counts as refused, because the gate cannot detect a failover then. The names of keys and channels begin with prefix.
// If Redis does not answer, Refused returns the error.
func Refused(ctx context.Context, rdb *redis.Client, prefix string) (refused []string, err error) {
	note := func(command string, err error) {
		if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command") {
			refused = append(refused, command)
		}
	}
	tried := strings.Split(commands, ";")
	// Pipelined returns the error of the first command; each command has its own.
	answers, _ := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range tried {
			words := strings.Fields(tried[i])
			args := make([]any, len(words))
			for j, word := range words {
				if strings.Contains(word, ":") {
					words[j] = prefix + word
				}
				args[j] = words[j]
			}
			tried[i] = strings.Join(words, " ")
			p.Do(ctx, args...)
		}
		return nil
	})
	for i, answer := range answers {
		note(tried[i], answer.Err())
		if text, failed := answer.(*redis.Cmd).Text(); failed == nil && strings.HasPrefix(tried[i], "INFO") && !strings.Contains(text, "master_replid:") {
			refused = append(refused, tried[i]+" (no master_replid)")
		}
	}
	channels := make([]string, len(subscriptions))
	for i, channel := range subscriptions {
		channels[i] = prefix + channel
	}
	subscribed := rdb.Subscribe(ctx, channels...)
	defer func() { _ = subscribed.Close() }()
	_, subscribing := subscribed.Receive(ctx)
	note("SUBSCRIBE "+strings.Join(channels, " "), subscribing)
	return refused, answers[0].Err()
}

// askRights returns the commands that a Redis master refuses, and logs them if they have changed.
func (a *App) askRights(ctx context.Context) (refused []string, err error) {
	if strings.HasPrefix(a.cfg.SQL, "sqlite:") {
		return nil, nil // the embedded Redis has neither accounts nor a master_replid
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var mu sync.Mutex
	err = eachMaster(ctx, a.rdb, func(ctx context.Context, master *redis.Client) error {
		its, err := Refused(ctx, master, Prefix(a.cfg.Namespace))
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, its...)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(refused)
	refused = slices.Compact(refused)
	if was := a.refusedBefore; !slices.Equal(refused, was) {
		a.cfg.Log.Warn("Redis refuses commands that a node needs: give its account the rights that OPERATIONS.md lists", "refused", refused, "before", was)
		a.refusedBefore = refused
	}
	return refused, nil
}

// degraded returns what is wrong although the node sells.
func (a *App) degraded(ctx context.Context) (reasons []string) {
	if n := a.service.Controller().DirectSales(); n > 0 {
		reasons = append(reasons, fmt.Sprintf("sales in direct mode: %d", n))
	}
	if refused, _ := a.rights.Get(ctx); len(refused) > 0 {
		reasons = append(reasons, "Redis refuses "+strings.Join(refused, ", "))
	}
	if !a.service.Controller().OwnsRedis() {
		reasons = append(reasons, "the node does not know yet whether Redis belongs to its database")
	}
	if rival := a.service.Controller().Rival(); rival != "" {
		reasons = append(reasons, "nodes of another database use this Redis: "+rival)
	}
	return reasons
}
