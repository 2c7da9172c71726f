package main

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A store that was set up well gets well; each setting that a promise rests on
// is found when it is wrong.
func TestDoctor(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	o, err := redis.ParseURL(s.RedisURL)
	noError(t, err)
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	set := func(name, value string) {
		t.Helper()
		noError(t, rdb.ConfigSet(t.Context(), name, value).Err())
	}
	look := func(want string, bad bool) {
		t.Helper()
		out, _, err := command(t, "doctor", "--redis", s.RedisURL, "--mysql", s.SQL)
		var exit exitCode
		if errors.As(err, &exit) != bad || !strings.Contains(out, want) {
			t.Errorf("%v, want bad: %v, and %q:\n%s", err, bad, want, out)
		}
	}
	db, err := sql.Open("mysql", s.SQL)
	noError(t, err)
	defer db.Close()
	sync := func(value string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = "+value+", GLOBAL sync_binlog = "+value)
		noError(t, err)
	}
	sync("0") // as tests start it
	look("BAD   mysql: innodb_flush_log_at_trx_commit 0", true)
	sync("1")
	set("appendonly", "yes")
	set("appendfsync", "always")
	look("ok    redis: appendonly yes, appendfsync always", false)
	look("ok    clocks: MySQL's is", false)
	set("appendfsync", "everysec")
	look("warn  redis: appendonly yes", false)
	set("appendonly", "no")
	look("BAD   redis: appendonly no", true)
	set("appendonly", "yes")
	set("maxmemory-policy", "volatile-lru")
	look("warn  redis: maxmemory-policy", false)
	set("maxmemory-policy", "allkeys-lru")
	look("BAD   redis: maxmemory-policy", true)
	set("maxmemory-policy", "noeviction")
	if out, _, err := command(t, "doctor", "--redis", s.RedisURL, "--mysql", s.SQL, "--nodes", "10000"); err == nil || !strings.Contains(out, "max_connections = ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err := command(t, "doctor", "--redis", "redis://127.0.0.1:1", "--mysql", "u:p@tcp(127.0.0.1:1)/d"); err == nil || strings.Count(out, "does not answer") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
