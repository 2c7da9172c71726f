package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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
			return nil, fmt.Errorf("redis: %q names no master, as redis+sentinel://host:26379/master/0 does", redact(url))
		}
	}
	first, others, several := cutHosts(rest)
	one, err := redis.ParseURL(scheme + "://" + first)
	if err != nil || !ok {
		return nil, fmt.Errorf("redis: %q is no URL such as redis://localhost:6379/0", redact(url))
	}
	return &redis.UniversalOptions{
		Addrs:         append([]string{one.Addr}, others...),
		IsClusterMode: several && !sentinel,
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

// cutHosts takes "user@a:1,b:2/0?x" apart into "user@a:1/0?x" and ["b:2"].
func cutHosts(rest string) (first string, others []string, several bool) {
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	hosts := strings.Split(authority, ",")
	return hosts[0] + path, hosts[1:], len(hosts) > 1
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

// redact hides the password of a URL or DSN.
func redact(url string) string {
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

// redisLog passes go-redis's own lines on, as what they are: details.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "message", fmt.Sprintf(format, v...))
}

// OpenRedis returns a client of url, as a node has it. It does not connect yet.
func OpenRedis(url string) (redis.UniversalClient, error) {
	options, err := redisOptions(url)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(redisLog{slog.New(slog.DiscardHandler)}) // the caller gets every error
	return redis.NewUniversalClient(options), nil
}
