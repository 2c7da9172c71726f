package servers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
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

// Each key expires when its time to live has passed on the server's clock.
func TestMiniRedisTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &MiniRedis{Server: miniredis.NewMiniRedis()}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go m.runClock(ctx)
		for key, ttl := range map[string]time.Duration{"short": 2 * time.Second, "long": time.Hour} {
			need(t, m.Server.Set(key, "v"))
			m.Server.SetTTL(key, ttl)
		}
		for _, c := range []struct {
			after       time.Duration
			short, long bool
		}{{time.Second, true, true}, {2 * time.Second, false, true}, {time.Hour, false, false}} {
			time.Sleep(c.after)
			if short, long := m.Server.Exists("short"), m.Server.Exists("long"); short != c.short || long != c.long {
				t.Errorf("after %v more: short %v, long %v", c.after, short, long)
			}
		}
	})
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
	const wait = 50 * time.Millisecond
	ends := func(ctx context.Context, m *MiniRedis) bool {
		return errors.Is(redisClient(t, m.Addr).XRead(ctx, &redis.XReadArgs{Streams: []string{"none", "$"}, Block: wait}).Err(), redis.Nil)
	}
	m := startMiniRedis(t)
	need(t, m.Restart(t.Context()))
	if !ends(check.Context(t), m) {
		t.Error("a blocking read does not end as it should")
	}

	// The library's own restart lacks this, and the same check sees it.
	m.Server.Close()
	need(t, await(t.Context(), "the library's restart", m.Server.Restart)) // a client's outgoing connection may have the port
	ctx, cancel := context.WithTimeout(t.Context(), 4*wait)
	defer cancel()
	if ends(ctx, m) {
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
