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

// RedisVariable is the environment variable that names a program, with its path,
// to be started in place of redis-server: a newer Redis, or a Valkey. The program
// may be a script that ends in exec.
const RedisVariable = "FLASHSALE_TEST_REDIS_SERVER"

// Redis is a private redis-server that appends every write to a log on disk.
type Redis struct {
	*Process
	URL string // redis://127.0.0.1:port/0
}

// RedisOptions are the choices that matter for what survives a crash.
type RedisOptions struct {
	// AppendFsync says when writes reach the disk: "always" (before they are
	// answered), "everysec" (the default) or "no". With the latter two a kill may
	// take the last second's writes along.
	AppendFsync string
	// ExtraArgs follow ours on the command line and win over them:
	// {"--maxmemory", "64mb"}.
	ExtraArgs []string
	// Env is added to the server's environment.
	Env []string
	// SearchPath, if set, is where redis-server is looked for instead of $PATH
	// and the usual folders, whatever RedisVariable says.
	SearchPath []string
}

// StartRedis starts a redis-server and returns when it answers. ctx bounds the
// start only. Close ends it.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
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
			return "", fmt.Errorf("servers: %s: %w", RedisVariable, err)
		}
		return path, nil
	}
	return find(folders, "apt-get install redis-server", "redis-server")
}

func (o RedisOptions) args(p *Process) []string {
	return append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port),
		"--dir", p.data, "--daemonize", "no",
		"--save", "", // no snapshots: the append-only log is all there is
		"--appendonly", "yes", "--appendfsync", cmp.Or(o.AppendFsync, "everysec"),
	}, o.ExtraArgs...)
}

// askRedis returns the version of the Redis at p's port, if that is the process pid
// and it is done loading. It is the process that is asked for its pid, because a
// stranger's server may have been quicker to take the port.
func askRedis(ctx context.Context, p *Process, pid int) (version string, err error) {
	// The client would log each time that nobody listens yet.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return "", err
	}
	_ = conn.Close()
	rdb := connect(p.Addr())
	defer rdb.Close()
	if err := rdb.Ping(ctx).Err(); err != nil { // such as LOADING
		return "", err
	}
	info, err := rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	if actual := info["Server"]["process_id"]; actual != strconv.Itoa(pid) {
		return "", fmt.Errorf("process %s answers on %s, not ours", actual, p.Addr())
	}
	if version := info["Server"]["valkey_version"]; version != "" {
		return "Valkey " + version, nil // its redis_version is the one it stands in for
	}
	return "Redis " + info["Server"]["redis_version"], nil
}

// connect is a client that asks once: who waits for a server asks again.
func connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, Protocol: 2, DisableIdentity: true,
	})
}
