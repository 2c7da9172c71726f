package servers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// RedisVariable is the environment variable with the path of a program to start instead
// of redis-server, such as a newer Redis or a Valkey. The program may be a script that
// ends in exec.
const RedisVariable = "FLASHSALE_TEST_REDIS_SERVER"

// Redis is a private redis-server that appends each write to a log on disk.
type Redis struct {
	*Process
	URL string // redis://127.0.0.1:port/0
}

// RedisConfig configures a private Redis.
type RedisConfig struct {
	// AppendFsync states when writes are synced to disk: "always" (before the answer),
	// "everysec" (the default) or "no". With the last two, a kill may lose the writes
	// of the last second.
	AppendFsync string
	// ExtraArgs are appended to the command line and take precedence, such as
	// {"--maxmemory", "64mb"}.
	ExtraArgs []string
	// Env is added to the server's environment.
	Env []string
	// SearchPath, if set, contains the folders in which redis-server is searched. It
	// replaces $PATH, the usual folders and RedisVariable.
	SearchPath []string
}

// StartRedis starts a redis-server and returns when it answers. ctx applies to the
// start only. Close stops the server.
func StartRedis(ctx context.Context, o RedisConfig) (*Redis, error) {
	path, err := findRedis(o.SearchPath)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, program{name: "redis-server", path: path, args: o.args, env: o.Env, serving: askRedis})
	if err != nil {
		return nil, err
	}
	return &Redis{Process: p, URL: "redis://" + p.Addr() + "/0"}, nil
}

func findRedis(folders []string) (string, error) {
	if program := os.Getenv(RedisVariable); program != "" && len(folders) == 0 {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", fmt.Errorf("servers: find the Redis of %s: %w", RedisVariable, err)
		}
		return path, nil
	}
	return find(folders, "apt-get install redis-server", "redis-server")
}

func (o RedisConfig) args(p *Process) []string {
	return append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port),
		"--dir", p.data, "--daemonize", "no",
		"--save", "", // no snapshots; the append-only log is the only copy
		"--appendonly", "yes", "--appendfsync", cmp.Or(o.AppendFsync, "everysec"),
	}, o.ExtraArgs...)
}

// askRedis returns the version of the Redis at p's port. It fails while the Redis is
// loading, and if its process is not pid, because another server may have taken the
// port.
func askRedis(ctx context.Context, p *Process, pid int) (version string, err error) {
	// Dial first, because the client would log each failed connection.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return "", err
	}
	_ = conn.Close()
	rdb := connect(p.Addr())
	defer rdb.Close()
	if err := rdb.Ping(ctx).Err(); err != nil { // LOADING, for example
		return "", err
	}
	info, err := rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	if actual := info["Server"]["process_id"]; actual != strconv.Itoa(pid) {
		return "", fmt.Errorf("the server at %s is another process: its pid is %s", p.Addr(), actual)
	}
	if version := info["Server"]["valkey_version"]; version != "" {
		return "Valkey " + version, nil // redis_version of Valkey is the version of Redis with which Valkey is compatible
	}
	return "Redis " + info["Server"]["redis_version"], nil
}

// connect returns a client without retries, because the callers retry.
func connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, Protocol: 2, DisableIdentity: true,
	})
}
