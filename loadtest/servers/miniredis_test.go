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

// Each key expires once its time to live has passed on the clock of the server.
func TestMiniRedisExpiresKeys(t *testing.T) {
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
				t.Errorf("keys of miniredis after %v more: got short %v, long %v, want %v, %v", c.after, short, long, c.short, c.long)
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
		t.Error("PING after Kill: got an answer, want an error")
	}
	need(t, m.Restart(t.Context()))
	if v := c.Get(t.Context(), "k").Val(); v != "v" {
		t.Errorf("key after a restart of miniredis: got %q, want v", v)
	}

	need(t, m.Close())
	if err := m.Restart(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("restart after Close: got error %v, want ErrClosed", err)
	}
}

// After a restart, a blocking read still returns without a value at its timeout.
func TestMiniRedisAnswersBlockingReadsAfterRestart(t *testing.T) {
	const wait = 50 * time.Millisecond
	ends := func(ctx context.Context, m *MiniRedis) bool {
		return errors.Is(redisClient(t, m.Addr).XRead(ctx, &redis.XReadArgs{Streams: []string{"none", "$"}, Block: wait}).Err(), redis.Nil)
	}
	m := startMiniRedis(t)
	need(t, m.Restart(t.Context()))
	if !ends(check.Context(t), m) {
		t.Error("blocking read after Restart: got no redis.Nil at its timeout")
	}

	// After the restart of the library, blocking reads are not answered.
	m.Server.Close()
	need(t, await(t.Context(), "restart the library", m.Server.Restart)) // a connection may still have the port
	ctx, cancel := context.WithTimeout(t.Context(), 4*wait)
	defer cancel()
	if ends(ctx, m) {
		t.Error("blocking read after the restart of the library: got redis.Nil, so MiniRedis.Restart need not set a context any more")
	}
}

// The Lua stack is smaller than the default, but large enough to unpack 1,000 values.
func TestMiniRedisUnpackLimit(t *testing.T) {
	c := redisClient(t, startMiniRedis(t).Addr)
	unpack := func(n int) error {
		return c.Eval(t.Context(), `
			local values = {}
			for i = 1, tonumber(ARGV[1]) do values[i] = i end
			return redis.call('RPUSH', KEYS[1], unpack(values))`, []string{"list"}, n).Err()
	}
	need(t, unpack(1000))
	if err := unpack(2000); err == nil {
		t.Error("unpack of 2,000 values: got no error, want a registry overflow")
	}
}
