// Package servertest runs tests against embedded stores and against real servers.
//
// The function Each runs a test on both kinds of stores, each time with an empty Redis and an
// empty SQL database. EachRedis and EachSQL start only one of the two. A test that waits for a
// lease or a timeout uses EachRedisInTime, in which the embedded Redis runs on a fake clock. A
// test that needs one kind only calls Open, OpenRedis or OpenSQL, and a test that needs a certain
// topology or has to kill a database calls OpenRedisSentinel, OpenRedisCluster, OpenZooKeeper or
// OpenMySQL. Servers run until the test ends, and a failed test prints their logs.
//
// Connect returns a Redis client that a slow machine does not disturb. Frozen starts a miniredis
// whose clock the test sets. OpenWire, RedisVia and SQLVia put a proxy in front of a server. The
// proxy can delay, cut or lose traffic. Package check contains assertions and waits.
//
// A package that uses real SQL calls Main from its TestMain. A package without real SQL calls
// Prepare from its TestMain if it has parallel tests or rapid properties.
//
// If the real servers are not installed, their half of a test is skipped. With
// FLASHSALE_TEST_REAL=require the test fails instead, and with FLASHSALE_TEST_REAL=off the
// half is always skipped. If real servers are required and the race detector is on, the
// Each functions skip the embedded half, because the race detector sees the same code on
// real servers.
package servertest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest/check"
)

// Kinds returns the kinds of stores on which the Each functions run a test, in order.
func Kinds() []string {
	if Race && os.Getenv("FLASHSALE_TEST_REAL") == "require" {
		return []string{servers.KindReal}
	}
	return []string{servers.KindEmbedded, servers.KindReal}
}

// Runner is *testing.T or *testing.B.
type Runner[T any] interface {
	testing.TB
	Run(name string, f func(T)) bool
}

// Each runs f on embedded stores and on real servers, as subtests or sub-benchmarks named
// after the kind. All stores are empty and used by no other test.
func Each[T Runner[T]](t T, f func(t T, s *servers.Stores)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t T) { f(t, Open(t, kind)) })
	}
}

// EachRedis is Each for tests that need no SQL database.
func EachRedis[T Runner[T]](t T, f func(t T, r *Redis)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t T) { f(t, OpenRedis(t, kind)) })
	}
}

// EachSQL is Each for tests that need no Redis. It passes a value of servers.Stores.SQL
// to f.
func EachSQL[T Runner[T]](t T, f func(t T, sql string)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t T) { f(t, OpenSQL(t, kind)) })
	}
}

// Open starts stores of one kind for the rest of the test. The real Redis is a new
// process. The real SQL database is a new database on a server that all tests of the
// package share, so Stores.MySQL is nil. A test that kills MySQL calls OpenMySQL instead.
func Open(tb testing.TB, kind string) *servers.Stores {
	tb.Helper()
	r := OpenRedis(tb, kind)
	s := &servers.Stores{Kind: kind, RedisURL: r.URL, SQL: OpenSQL(tb, kind), Mini: r.Mini, Redis: r.Real}
	s.Versions = "miniredis, SQLite"
	if kind == servers.KindReal {
		s.Versions = r.Real.Version + ", " + shared.server.Version // OpenSQL has started it
	}
	return s
}

// Redis is a Redis for one test. One of Mini and Real is nil.
type Redis struct {
	Kind string
	URL  string
	Mini *servers.MiniRedis
	Real *servers.Redis
}

// OpenRedis starts an empty Redis of one kind for the rest of the test.
func OpenRedis(tb testing.TB, kind string) *Redis {
	tb.Helper()
	if kind == servers.KindEmbedded {
		m, err := servers.StartMiniRedis(tb.Context())
		require(tb, err)
		tb.Cleanup(func() { closed(tb, m.Close()) })
		return &Redis{Kind: kind, URL: m.URL, Mini: m}
	}
	r := started(tb, func(ctx context.Context) (*servers.Redis, error) {
		return servers.StartRedis(ctx, servers.RedisConfig{})
	})
	return &Redis{Kind: kind, URL: r.URL, Real: r}
}

// OpenSQL creates an empty SQL database of one kind for the rest of the test, and returns
// a value of servers.Stores.SQL.
func OpenSQL(tb testing.TB, kind string) (sql string) {
	tb.Helper()
	if kind == servers.KindEmbedded {
		// Not tb.TempDir: it holds the test's name, and a # in it would be cut off in a URI.
		dir, err := os.MkdirTemp("", "flashsale-sqlite-")
		require(tb, err)
		tb.Cleanup(func() { closed(tb, os.RemoveAll(dir)) })
		return "sqlite:" + filepath.ToSlash(filepath.Join(dir, "flashsale.db"))
	}
	wantReal(tb)
	test, _, _ := strings.Cut(tb.Name(), "/")
	notOnTiDB(tb, onTiDB[test])
	server, name, dsn, err := shared.newDatabase(check.Context(tb))
	require(tb, err)
	tb.Cleanup(func() { // the context of the test is cancelled by now
		ctx, cancel := context.WithDeadline(context.WithoutCancel(tb.Context()), check.Deadline(tb))
		defer cancel()
		closed(tb, server.DropDatabase(ctx, name))
	})
	return dsn
}

// WithOtherSQL returns the stores of another installation: the Redis of s, and another database.
func WithOtherSQL(tb testing.TB, s *servers.Stores) *servers.Stores {
	tb.Helper()
	other := *s
	other.SQL = OpenSQL(tb, s.Kind)
	return &other
}

// wantReal skips the test if FLASHSALE_TEST_REAL is off.
func wantReal(tb testing.TB) {
	tb.Helper()
	switch mode := os.Getenv("FLASHSALE_TEST_REAL"); mode {
	case "", "require":
	case "off":
		tb.Skip("FLASHSALE_TEST_REAL=off")
	default:
		tb.Fatalf("FLASHSALE_TEST_REAL: got %s, want require, off or nothing", mode)
	}
}

// require ends the test if err is not nil. If the error is a missing server, the test is
// skipped, unless real servers are required.
func require(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require":
		tb.Skip(err)
	default:
		tb.Fatalf("start the servers: got error %v, want none", err)
	}
}

func closed(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Errorf("close the server after the test: got error %v, want none", err)
	}
}

// started starts a real server for the rest of the test. A failed test prints the end of
// the server's log.
func started[S io.Closer](tb testing.TB, start func(context.Context) (S, error)) S {
	tb.Helper()
	wantReal(tb)
	s, err := start(check.Context(tb))
	require(tb, err)
	tb.Cleanup(func() {
		if p, ok := any(s).(interface{ LogTail() string }); ok && tb.Failed() {
			tb.Logf("the end of the server's log:\n%s", p.LogTail())
		}
		closed(tb, s.Close())
	})
	return s
}

// OpenZooKeeper starts an empty ZooKeeper for the rest of the test.
func OpenZooKeeper(tb testing.TB) *servers.ZooKeeper {
	tb.Helper()
	return started(tb, servers.StartZooKeeper)
}

// OpenRedisSentinel starts an empty Redis with a replica and a sentinel for the
// rest of the test.
func OpenRedisSentinel(tb testing.TB) *servers.RedisSentinel {
	tb.Helper()
	return started(tb, servers.StartRedisSentinel)
}

// OpenRedisCluster starts an empty Redis Cluster of n masters for the rest of the test.
func OpenRedisCluster(tb testing.TB, n int) *servers.RedisCluster {
	tb.Helper()
	return started(tb, func(ctx context.Context) (*servers.RedisCluster, error) { return servers.StartRedisCluster(ctx, n) })
}
