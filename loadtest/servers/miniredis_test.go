package servers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

func startMiniRedis(t *testing.T) *MiniRedis {
	t.Helper()
	m, err := StartMiniRedis(t.Context())
	need(t, err)
	t.Cleanup(func() { need(t, m.Close()) })
	return m
}

func TestMiniRedisTimePasses(t *testing.T) {
	m := startMiniRedis(t)
	c := redisClient(t, m.Addr)
	gone := func(key string) bool { return errors.Is(c.Get(t.Context(), key).Err(), redis.Nil) }

	need(t, c.Set(t.Context(), "short", "v", 2*time.Second).Err())
	need(t, c.Set(t.Context(), "long", "v", time.Hour).Err())
	if gone("short") {
		t.Error("gone at once")
	}
	check.Eventually(t, "expired by itself", func() bool { return gone("short") })
	if gone("long") {
		t.Error("an hour has passed by itself")
	}
	m.Server.FastForward(time.Hour)
	if !gone("long") {
		t.Error("still there after an hour was let pass")
	}
}

func TestMiniRedisRestart(t *testing.T) {
	m := startMiniRedis(t)
	c := redisClient(t, m.Addr)
	need(t, c.Set(t.Context(), "k", "v", 0).Err())

	m.Kill()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("answers after Kill")
	}
	need(t, m.Restart(t.Context()))
	if v := c.Get(t.Context(), "k").Val(); v != "v" {
		t.Errorf("after a restart: %q, want v", v)
	}

	need(t, m.Close())
	if err := m.Restart(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("restart after Close: %v, want ErrClosed", err)
	}
}

// A blocking read ends after a restart as it did before: empty-handed, when its
// time is up.
func TestMiniRedisBlocksAfterRestart(t *testing.T) {
	t.Parallel()
	const wait = 100 * time.Millisecond
	endsInTime := func(m *MiniRedis) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*wait)
		defer cancel()
		start := time.Now()
		err := redisClient(t, m.Addr).XRead(ctx, &redis.XReadArgs{
			Streams: []string{"none", "$"}, Block: wait,
		}).Err()
		return errors.Is(err, redis.Nil) && time.Since(start) >= wait
	}
	m := startMiniRedis(t)
	need(t, m.Restart(t.Context()))
	if !endsInTime(m) {
		t.Error("a blocking read does not end as it should")
	}

	// The library's own restart lacks this, and the same check sees it.
	m.Server.Close()
	need(t, await(t.Context(), "the library's restart", m.Server.Restart)) // a client's outgoing connection may have the port
	if endsInTime(m) {
		t.Error("the library's restart does it, too: ours need not repair it any more")
	}
}

// The Lua stack is smaller than the library's, but takes what scripts unpack.
func TestMiniRedisUnpacks(t *testing.T) {
	c := redisClient(t, startMiniRedis(t).Addr)
	unpack := func(n int) error {
		return c.Eval(t.Context(), `
			local values = {}
			for i = 1, tonumber(ARGV[1]) do values[i] = i end
			return redis.call('RPUSH', KEYS[1], unpack(values))`, []string{"list"}, n).Err()
	}
	need(t, unpack(1000))
	if err := unpack(2000); err == nil {
		t.Error("unpacked 2,000: the limit in the documentation is out of date")
	}
}
