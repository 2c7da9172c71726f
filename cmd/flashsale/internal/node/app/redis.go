package app

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
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

// ownOptions are the options of a URL that go-redis's own parser does not know. keptOptions are
// the options that it parses for us. A node sets all others itself.
var (
	ownOptions  = []string{"sentinel_username", "sentinel_password", "server_name"}
	keptOptions = []string{"client_name", "db", "protocol", "skip_verify"}
)

// redisOptions parses a URL in one of three forms:
//
//	redis://user:password@host:6379/0            a single server
//	redis://user:password@host:6379,host:6379    the nodes of a cluster
//	redis+sentinel://user:password@host:26379,host:26379/master/0
//
// With rediss, each server is verified by the name under which it is called, or by the option
// server_name. With Sentinel, the path begins with the name of the master. User and password
// are for Redis, and sentinel_username and sentinel_password for the sentinels. An option that
// would have no effect is an error.
func redisOptions(text string) (*redis.UniversalOptions, error) {
	refuse := func(format string, args ...any) (*redis.UniversalOptions, error) {
		return nil, fmt.Errorf("parse --redis: %q "+format, append([]any{Redact(text)}, args...)...)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	scheme, sentinel := strings.CutSuffix(scheme, "+sentinel")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@") + 1
	hosts := strings.Split(authority[at:], ",")
	var master string
	if sentinel {
		if master, path, _ = strings.Cut(path, "/"); master == "" {
			return refuse("names no master (want redis+sentinel://host:26379/master/0)")
		}
	}
	options, err := url.ParseQuery(query)
	own := url.Values{}
	for name, values := range options {
		switch {
		case len(values) > 1:
			return refuse("has the option %s twice", name)
		case slices.Contains(ownOptions, name):
			own[name] = values
			delete(options, name)
		case !slices.Contains(keptOptions, name):
			return refuse("has the option %s: want one of %s", name, strings.Join(append(keptOptions, ownOptions...), ", "))
		}
	}
	var one *redis.Options
	addrs := make([]string, len(hosts))
	for i, host := range hosts {
		if err == nil {
			one, err = redis.ParseURL(scheme + "://" + authority[:at] + host + "/" + path + "?" + options.Encode())
		}
		if err != nil || host == "" || scheme == "unix" || strings.Contains(rest, "#") {
			return refuse("is not a URL such as redis://localhost:6379/0 (in a password, write /, ?, # and %% as %%2F, %%3F, %%23 and %%25)")
		}
		if addrs[i] = one.Addr; sentinel && one.Addr != host { // the parser adds the port of Redis
			addrs[i] = host + ":26379"
		}
	}
	cluster := len(hosts) > 1 && !sentinel
	switch {
	case options.Has("db") && strings.Trim(path, "/") != "":
		return refuse("names its database twice")
	case at > 0 && one.Password == "":
		return refuse("has an empty password: set a password, or remove user and password")
	case cluster && one.DB != 0:
		return refuse("names database %d: a cluster has only database 0", one.DB)
	case one.Protocol != 0 && one.Protocol != 2 && one.Protocol != 3:
		return refuse("names protocol %d: want 2 or 3", one.Protocol)
	case !sentinel && (own.Has("sentinel_username") || own.Has("sentinel_password")):
		return refuse("has options for sentinels: want redis+sentinel://")
	case own.Has("server_name") && one.TLSConfig == nil:
		return refuse("has the option server_name: want rediss://")
	}
	if one.TLSConfig != nil {
		one.TLSConfig.ServerName = own.Get("server_name") // if empty, the name of the server that is called
	}
	return &redis.UniversalOptions{
		Addrs:         addrs,
		IsClusterMode: cluster,
		MasterName:    master,
		DB:            one.DB, Username: one.Username, Password: one.Password, TLSConfig: one.TLSConfig,
		Protocol: one.Protocol, ClientName: one.ClientName,
		SentinelUsername: own.Get("sentinel_username"), SentinelPassword: own.Get("sentinel_password"),

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

var sentinelPassword = regexp.MustCompile(`(sentinel_password=)[^&]*`)

// Redact replaces the passwords of a URL or DSN by ***.
func Redact(url string) string {
	url = sentinelPassword.ReplaceAllString(url, "${1}***")
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
