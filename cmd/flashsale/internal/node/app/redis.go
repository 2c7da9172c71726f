package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// The maximum number of connections of one node to each store.
const (
	RedisConnections = 32
	MySQLConnections = 32
)

// redisOptions parses a URL in one of three forms:
//
//	redis://user:password@host:6379/0            a single server
//	redis://user:password@host:6379,host:6379    the nodes of a cluster
//	redis+sentinel://user:password@host:26379,host:26379/master/0
//
// With Sentinel, the path begins with the name of the master. User and password are
// for Redis; the sentinels are called without a password.
func redisOptions(url string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	scheme, sentinel := strings.CutSuffix(scheme, "+sentinel")
	var master string
	if sentinel {
		if rest, master = cutMaster(rest); master == "" {
			return nil, fmt.Errorf("parse --redis: %q names no master (want redis+sentinel://host:26379/master/0)", Redact(url))
		}
	}
	first, others := cutHosts(rest)
	one, err := redis.ParseURL(scheme + "://" + first)
	if err != nil || !ok {
		return nil, fmt.Errorf("parse --redis: %q is not a URL such as redis://localhost:6379/0", Redact(url))
	}
	if strings.Contains(first, ":@") {
		return nil, fmt.Errorf("parse --redis: %q has an empty password: set a password, or remove user and password", Redact(url))
	}
	return &redis.UniversalOptions{
		Addrs:         append([]string{one.Addr}, others...),
		IsClusterMode: len(others) > 0 && !sentinel,
		MasterName:    master,
		DB:            one.DB, Username: one.Username, Password: one.Password, TLSConfig: one.TLSConfig,

		// Retries after a timeout are safe because all scripts are idempotent.
		ContextTimeoutEnabled: true,
		DialTimeout:           2 * time.Second,
		ReadTimeout:           time.Second,
		WriteTimeout:          time.Second,
		MaxRetries:            2,
		DialerRetries:         1, // fail at once if Redis refuses the connection
		PoolSize:              RedisConnections,
	}, nil
}

// openRedis returns the client of the node. On each new connection the gate checks which
// Redis, or which master of a cluster, it has reached before the connection is used.
func (a *App) openRedis(options *redis.UniversalOptions) redis.UniversalClient {
	options.OnConnect = func(ctx context.Context, c *redis.Conn) error { return a.gate.OnConnect(inventory.Standalone)(ctx, c) }
	rdb := redis.NewUniversalClient(options)
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) {
			name := node.Options().Addr
			node.Options().OnConnect = func(ctx context.Context, c *redis.Conn) error { return a.gate.OnConnect(name)(ctx, c) }
		})
	}
	return rdb
}

// cutHosts splits "user@a:1,b:2/0?x" into "user@a:1/0?x" and ["b:2"].
func cutHosts(rest string) (first string, others []string) {
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	hosts := strings.Split(authority, ",")
	return hosts[0] + path, hosts[1:]
}

// cutMaster splits "user@a:1,b:2/master/0?x" into "user@a:1,b:2/0?x" and "master".
func cutMaster(rest string) (without, master string) {
	hosts, path, _ := strings.Cut(rest, "/")
	end := strings.IndexAny(path, "/?")
	if end < 0 {
		end = len(path)
	}
	return hosts + path[end:], path[:end]
}

// Redact replaces the password of a URL or DSN by ***.
func Redact(url string) string {
	at := strings.LastIndex(url, "@")
	if at < 0 {
		return url
	}
	start := 0
	if i := strings.Index(url, "://"); i >= 0 && i < at {
		start = i + 3
	}
	user, _, _ := strings.Cut(url[start:at], ":")
	return url[:start] + user + ":***" + url[at:]
}

// OpenRedis returns a client with the options of a node. It does not connect yet.
func OpenRedis(url string) (redis.UniversalClient, error) {
	options, err := redisOptions(url)
	if err != nil {
		return nil, err
	}
	return redis.NewUniversalClient(options), nil
}
