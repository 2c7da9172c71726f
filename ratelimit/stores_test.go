package ratelimit

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Every test closes what it opens: a goroutine left at the end is a failure.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onEachStore runs a test on the embedded Redis and on a real one.
func onEachStore(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("embedded", func(t *testing.T) {
		_, client := startEmbedded(t)
		test(t, client)
	})
	t.Run("real", func(t *testing.T) { test(t, startReal(t)) })
}

// startEmbedded starts a miniredis whose clock stands still until SetTime,
// and whose keys expire by that clock.
func startEmbedded(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	server.SetTime(epoch)
	server.ClockTTL(true)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

// epoch is where the embedded clock starts: 1 ms before a full second.
var epoch = time.UnixMicro(1_000_000_000_999_000)

func startReal(t testing.TB, flags ...string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: startServer(t, flags...), ContextTimeoutEnabled: true, PoolSize: 64,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// startServer runs a private redis-server on a free loopback port until the
// test ends.
func startServer(t testing.TB, flags ...string) (addr string) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("FLASHSALE_TEST_REAL") == "require" {
			t.Fatal("FLASHSALE_TEST_REAL=require, and there is no redis-server: install it")
		}
		t.Skip("no redis-server installed")
	}
	port := freePort(t)
	args := []string{"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", t.TempDir()}
	server := exec.Command(binary, append(args, flags...)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	eventually(t, "redis-server answers", func() bool { return client.Ping(t.Context()).Err() == nil })
	return addr
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		case <-tick.C:
		}
	}
}

// limit is ParseLimit for limits that are known to be good.
func limit(t testing.TB, text string) Limit {
	t.Helper()
	l, err := ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// allow is Allow for requests that must get an answer.
func allow(t testing.TB, l *Limiter, cost int, buckets ...Bucket) Result {
	t.Helper()
	r, err := l.Allow(t.Context(), cost, buckets...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left is the tokens in a bucket that a request of 1 would find.
func left(t testing.TB, client redis.UniversalClient, b Bucket) int64 {
	t.Helper()
	l := New(client, Config{})
	r := allow(t, l, 1, b)
	if !r.Allowed {
		return r.Remaining
	}
	giveBack(t, client, 1, b)
	return r.Remaining + 1
}

// giveBack returns tokens that were taken just now.
func giveBack(t testing.TB, client redis.UniversalClient, tokens int64, b Bucket) {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	back := []ask{{cost: -tokens, buckets: []Bucket{b}, taken: now.UnixMicro()}}
	if err := New(client, Config{}).take(t.Context(), back)[0].err; err != nil {
		t.Fatal(err)
	}
}
