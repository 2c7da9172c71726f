package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// Connections of one node to each of its stores, at most.
const (
	RedisConnections = 32
	MySQLConnections = 32
)

// redisOptions reads a URL such as redis://user:password@host:6379/0. Several
// hosts with commas between them are the nodes of a Redis Cluster, or with the
// scheme redis+sentinel sentinels of the master that is named before the database:
// redis+sentinel://user:password@host:26379,host:26379/master/0. User and password
// are Redis's; the sentinels are asked without.
func redisOptions(url string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	scheme, sentinel := strings.CutSuffix(scheme, "+sentinel")
	var master string
	if sentinel {
		if rest, master = cutMaster(rest); master == "" {
			return nil, fmt.Errorf("redis: %q names no master, as redis+sentinel://host:26379/master/0 does", Redact(url))
		}
	}
	first, others := cutHosts(rest)
	one, err := redis.ParseURL(scheme + "://" + first)
	if err != nil || !ok {
		return nil, fmt.Errorf("redis: %q is no URL such as redis://localhost:6379/0", Redact(url))
	}
	if strings.Contains(first, ":@") {
		return nil, fmt.Errorf("redis: %q has an empty password: set it, or leave out what stands before the host", Redact(url))
	}
	return &redis.UniversalOptions{
		Addrs:         append([]string{one.Addr}, others...),
		IsClusterMode: len(others) > 0 && !sentinel,
		MasterName:    master,
		DB:            one.DB, Username: one.Username, Password: one.Password, TLSConfig: one.TLSConfig,

		// A request's deadline counts, a lost connection costs a moment, and a
		// script that is sent again after a timeout changes nothing: all of
		// ours can be repeated.
		ContextTimeoutEnabled: true,
		DialTimeout:           2 * time.Second,
		ReadTimeout:           time.Second,
		WriteTimeout:          time.Second,
		MaxRetries:            2,
		DialerRetries:         1, // else every call to a Redis that refuses takes its whole timeout
		PoolSize:              RedisConnections,
	}, nil
}

// openRedis connects to Redis. Each new connection tells the gate which Redis it
// leads to, before it is used: in a cluster, of which master.
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

// cutHosts takes "user@a:1,b:2/0?x" apart into "user@a:1/0?x" and ["b:2"].
func cutHosts(rest string) (first string, others []string) {
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	hosts := strings.Split(authority, ",")
	return hosts[0] + path, hosts[1:]
}

// cutMaster takes "user@a:1,b:2/master/0?x" apart into "user@a:1,b:2/0?x" and
// "master".
func cutMaster(rest string) (without, master string) {
	hosts, path, _ := strings.Cut(rest, "/")
	end := strings.IndexAny(path, "/?")
	if end < 0 {
		end = len(path)
	}
	return hosts + path[end:], path[:end]
}

// Redact hides the password of a URL or DSN.
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

// OpenRedis returns a client of url, as a node has it. It does not connect yet.
func OpenRedis(url string) (redis.UniversalClient, error) {
	options, err := redisOptions(url)
	if err != nil {
		return nil, err
	}
	return redis.NewUniversalClient(options), nil
}
