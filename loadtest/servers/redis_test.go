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

// redisClient returns a client that does not retry commands.
func redisClient(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { need(t, c.Close()) })
	return c
}

// kept reports whether a key survives the restart.
func kept(t *testing.T, r *Redis, restart func(context.Context) error) bool {
	t.Helper()
	before := r.Pid()
	c := redisClient(t, r.Addr())
	need(t, c.Set(t.Context(), "k", "v", 0).Err())
	need(t, restart(t.Context()))
	if after := r.Pid(); after == 0 || after == before {
		t.Fatalf("pid: got %d before the restart and %d after, want a new one", before, after)
	}
	n, err := redisClient(t, r.Addr()).Exists(t.Context(), "k").Result()
	need(t, err)
	return n == 1
}

func killed(r *Redis) func(context.Context) error {
	return func(ctx context.Context) error { r.Kill(); return r.Restart(ctx) }
}

func TestRedisRestart(t *testing.T) {
	r := startRedis(t, RedisConfig{AppendFsync: "always"})
	if !kept(t, r, killed(r)) {
		t.Error("after Kill and Restart: got no data, want the data of before")
	}
	if !kept(t, r, r.Restart) {
		t.Error("after Restart: got no data, want the data of before")
	}
	if kept(t, r, r.RestartEmpty) {
		t.Error("after RestartEmpty: got data, want none")
	}

	// Without an append-only log, a kill loses the data.
	unlogged := startRedis(t, RedisConfig{ExtraArgs: []string{"--appendonly", "no"}})
	if kept(t, unlogged, killed(unlogged)) {
		t.Error("after Kill without a log: got data, want none")
	}
}

func TestRedisPause(t *testing.T) {
	r := startRedis(t, RedisConfig{})
	ping := func(ctx context.Context) error { return redisClient(t, r.Addr()).Ping(ctx).Err() }
	need(t, ping(t.Context()))
	need(t, r.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := ping(ctx); err == nil {
		t.Error("PING while Redis is paused: got an answer, want none")
	}
	need(t, r.Resume())
	need(t, ping(check.Context(t)))

	need(t, r.Pause()) // Restart and Close resume a paused server first
	need(t, r.Restart(t.Context()))
	need(t, r.Pause())
	need(t, r.Close())
	if err := r.Pause(); err == nil {
		t.Error("Pause after Close: got no error, want one")
	}
	if err := r.Restart(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("restart after Close: got error %v, want ErrClosed", err)
	}
}

func TestStartErrorContainsLog(t *testing.T) {
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := StartRedis(t.Context(), RedisConfig{ExtraArgs: []string{"--no-such-setting", "1"}})
	if errors.Is(err, ErrNotInstalled) {
		need(t, err)
	}
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("start with a bad setting: got error %v, want the end of the log in it", err)
	}
	if left := remains(t); len(left) > 0 {
		t.Errorf("files: got %v, want none", left)
	}
}

// Restart waits until its old port is free.
func TestRestartWaitsForItsPort(t *testing.T) {
	r := startRedis(t, RedisConfig{})
	r.Kill()
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", r.Addr())
	need(t, err)

	restarted := make(chan error, 1)
	go func() { restarted <- r.Restart(t.Context()) }()
	check.Eventually(t, "the server finds its port taken", func() bool {
		log, err := os.ReadFile(r.logFile())
		return err == nil && strings.Contains(string(log), "Address already in use")
	})
	select {
	case err := <-restarted:
		t.Fatalf("Restart while the port is taken: got error %v, want it to wait", err)
	default:
	}
	need(t, other.Close())
	need(t, <-restarted)
	need(t, redisClient(t, r.Addr()).Ping(t.Context()).Err())
}

// If another process answers on the port, the server is not ready.
func TestOtherRedisOnPortIsNotReady(t *testing.T) {
	r := startRedis(t, RedisConfig{})
	if _, err := askRedis(t.Context(), r.Process, r.Pid()); err != nil {
		t.Errorf("own process: got error %v, want no error", err)
	}
	if _, err := askRedis(t.Context(), r.Process, r.Pid()+1); err == nil {
		t.Error("check for another process: got no error, want one")
	}
}
