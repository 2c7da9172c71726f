package servers

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// redisClient does not retry: a test sees what one command sees.
func redisClient(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { need(t, c.Close()) })
	return c
}

// kept reports whether what was written before a restart is there after it.
func kept(t *testing.T, r *Redis, restart func(context.Context) error) bool {
	t.Helper()
	before := r.Pid()
	c := redisClient(t, r.Addr())
	need(t, c.Set(t.Context(), "k", "v", 0).Err())
	need(t, restart(t.Context()))
	if after := r.Pid(); after == 0 || after == before {
		t.Fatalf("pid %d before the restart, %d after", before, after)
	}
	n, err := redisClient(t, r.Addr()).Exists(t.Context(), "k").Result()
	need(t, err)
	return n == 1
}

func killed(r *Redis) func(context.Context) error {
	return func(ctx context.Context) error { r.Kill(); return r.Restart(ctx) }
}

func TestRedisRestart(t *testing.T) {
	r := startRedis(t, RedisOptions{AppendFsync: "always"})
	if !kept(t, r, killed(r)) {
		t.Error("killed and restarted: data lost")
	}
	if !kept(t, r, r.Restart) {
		t.Error("stopped and restarted: data lost")
	}
	if kept(t, r, r.RestartEmpty) {
		t.Error("restarted empty: data kept")
	}

	// Without its log the same kill loses the data, and the same check says so.
	forgetful := startRedis(t, RedisOptions{ExtraArgs: []string{"--appendonly", "no"}})
	if kept(t, forgetful, killed(forgetful)) {
		t.Error("killed without a log: data kept?")
	}
}

func TestRedisPause(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	ping := func(ctx context.Context) error { return redisClient(t, r.Addr()).Ping(ctx).Err() }
	need(t, ping(t.Context()))
	need(t, r.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := ping(ctx); err == nil {
		t.Error("answers while paused")
	}
	need(t, r.Resume())
	need(t, ping(check.Context(t)))

	need(t, r.Pause()) // a paused server can be stopped in good order, and closed
	need(t, r.Restart(t.Context()))
	need(t, r.Pause())
	need(t, r.Close())
	if err := r.Pause(); err == nil {
		t.Error("paused what is closed")
	}
	if err := r.Restart(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("restart after Close: %v, want ErrClosed", err)
	}
}

func TestRedisThatCannotStartSaysWhy(t *testing.T) {
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := StartRedis(t.Context(), RedisOptions{ExtraArgs: []string{"--no-such-setting", "1"}})
	if errors.Is(err, ErrNotInstalled) {
		need(t, err)
	}
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("error = %v, want the end of the log", err)
	}
	if left := remains(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A restart needs its old port, and waits for whoever holds it.
func TestRestartWaitsForItsPort(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	r.Kill()
	squatter, err := new(net.ListenConfig).Listen(t.Context(), "tcp", r.Addr())
	need(t, err)

	restarted := make(chan error, 1)
	go func() { restarted <- r.Restart(t.Context()) }()
	check.Eventually(t, "refused the port", func() bool {
		log, err := os.ReadFile(r.logFile())
		return err == nil && strings.Contains(string(log), "Address already in use")
	})
	select {
	case err := <-restarted:
		t.Fatalf("restarted although the port is taken: %v", err)
	default:
	}
	need(t, squatter.Close())
	need(t, <-restarted)
	need(t, redisClient(t, r.Addr()).Ping(t.Context()).Err())
}

// A server on our port that is not our process does not count as ready.
func TestAStrangersRedisIsNotOurs(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	if _, err := askRedis(t.Context(), r.Process, r.Pid()); err != nil {
		t.Errorf("own process: %v", err)
	}
	if _, err := askRedis(t.Context(), r.Process, r.Pid()+1); err == nil {
		t.Error("took another process for ours")
	}
}
