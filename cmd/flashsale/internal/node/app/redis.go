package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
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

// urlOptions are the options that a URL may have. A node sets all others itself.
var urlOptions = []string{"client_name", "db", "protocol", "skip_verify", "sentinel_username", "sentinel_password"}

// redisOptions parses a URL in one of three forms:
//
//	redis://user:password@host:6379/0            a single server
//	redis://user:password@host:6379,host:6379    the nodes of a cluster
//	redis+sentinel://user:password@host:26379,host:26379/master/0
//
// With rediss, the servers are verified as dialTLS describes. With Sentinel, the path begins with
// the name of the master. User and password are for Redis, and sentinel_username and
// sentinel_password for the sentinels. Anything in the URL that would have no effect is an error.
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
	cluster := len(hosts) > 1 && !sentinel
	var master string
	if sentinel {
		master, path, _ = strings.Cut(path, "/")
	}
	options, err := url.ParseQuery(query)
	for name, values := range options {
		if len(values) > 1 || !slices.Contains(urlOptions, name) {
			return refuse("has the option %s, which is unknown or repeated: want %s", name, strings.Join(urlOptions, ", "))
		}
	}
	sentinelUser, sentinelPassword := options.Get("sentinel_username"), options.Get("sentinel_password")
	options.Del("sentinel_username")
	options.Del("sentinel_password")
	var one *redis.Options
	addrs := make([]string, len(hosts))
	for i, host := range hosts {
		if err == nil {
			one, err = redis.ParseURL(scheme + "://" + authority[:at] + host + "/" + path + "?" + options.Encode())
		}
		if err != nil || host == "" || scheme == "unix" || strings.Contains(rest, "#") {
			return refuse("cannot be parsed: want a URL such as redis://localhost:6379/0, with valid options (in a password, write /, ?, # and %% as %%2F, %%3F, %%23 and %%25)")
		}
		addrs[i] = one.Addr
	}
	var f faults
	f.check(!sentinel || master != "", "names no master (want redis+sentinel://host:26379/master/0)")
	f.check(sentinel || sentinelUser+sentinelPassword == "", "has an account for sentinels (want redis+sentinel://)")
	f.check(at == 0 || one.Password != "", "has an empty password: set a password, or remove user and password")
	f.check(!cluster || one.DB == 0, "names database %d: a cluster has only database 0", one.DB)
	f.check(!options.Has("db") || strings.Trim(path, "/") == "", "names its database twice")
	f.check(slices.Contains([]int{0, 2, 3}, one.Protocol), "names protocol %d: want 2 or 3", one.Protocol)
	if len(f) > 0 {
		return refuse("%w", errors.Join(f...))
	}
	return &redis.UniversalOptions{
		Dialer:        dialTLS(one.TLSConfig, addrs),
		Addrs:         addrs,
		IsClusterMode: cluster,
		MasterName:    master,
		DB:            one.DB, Username: one.Username, Password: one.Password, TLSConfig: one.TLSConfig,
		Protocol: one.Protocol, ClientName: one.ClientName,
		SentinelUsername: sentinelUser, SentinelPassword: sentinelPassword,

		// Retries after a timeout are safe because all scripts are idempotent.
		ContextTimeoutEnabled: true,
		DialTimeout:           dialTimeout,
		ReadTimeout:           time.Second,
		WriteTimeout:          time.Second,
		MaxRetries:            2,
		DialerRetries:         1, // fail at once if Redis refuses the connection
		PoolSize:              RedisConnections,
	}, nil
}

// dialTimeout bounds the dialing of one connection.
const dialTimeout = 2 * time.Second

// dialTLS returns a function that opens connections with TLS, or nil without a config. The
// certificate of a server must be valid for the name that is called, or for the host of one of
// urlAddrs. The second name serves clusters and sentinels that report the address of a server
// instead of its name.
func dialTLS(config *tls.Config, urlAddrs []string) func(context.Context, string, string) (net.Conn, error) {
	if config == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		for _, named := range append([]string{addr}, urlAddrs...) {
			d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config.Clone()}
			d.Config.ServerName, _, _ = net.SplitHostPort(named)
			conn, err = d.DialContext(ctx, network, addr)
			if _, otherName := errors.AsType[x509.HostnameError](err); !otherName {
				break
			}
		}
		return conn, err
	}
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
