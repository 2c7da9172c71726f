package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

// Redis is a private redis-server that appends every write to a log on disk.
type Redis struct {
	*Process
	URL     string // redis://127.0.0.1:port/0
	Version string // "Redis 7.0.15"
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
	// SearchPath, if set, is where redis-server is looked for instead of $PATH
	// and the usual folders.
	SearchPath []string
}

// StartRedis starts a redis-server and returns when it answers. ctx bounds the
// start only. Close ends it.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	path, err := findRedis(o.SearchPath)
	if err != nil {
		return nil, err
	}
	var version string
	p, err := startProcess(ctx, program{
		name:       "redis-server",
		path:       path,
		args:       o.args,
		initialise: func(_ context.Context, p *Process) error { return os.Mkdir(p.data, 0o700) },
		serving: func(ctx context.Context, p *Process, pid int) (err error) {
			version, err = askRedis(ctx, p.Addr(), pid)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return &Redis{Process: p, URL: "redis://" + p.Addr() + "/0", Version: version}, nil
}

func findRedis(folders []string) (string, error) {
	return find(folders, "apt-get install redis-server", "redis-server")
}

func (o RedisOptions) args(p *Process) []string {
	fsync := o.AppendFsync
	if fsync == "" {
		fsync = "everysec"
	}
	return append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port),
		"--dir", p.data, "--daemonize", "no",
		"--save", "", // no snapshots: the append-only log is all there is
		"--appendonly", "yes", "--appendfsync", fsync,
	}, o.ExtraArgs...)
}

// askRedis returns the version of the Redis at addr, if that is the process pid
// and it is done loading. It is the process that is asked for its pid, because a
// stranger's server may have been quicker to take the port.
func askRedis(ctx context.Context, addr string, pid int) (version string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline() // none is the zero time, which SetDeadline takes for none, too
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}

	// Two commands in Redis's plain-text form; a client library would retry and
	// pool behind our back.
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\n"); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	pong, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if pong != "+PONG\r\n" { // such as -LOADING
		return "", fmt.Errorf("PING answered with %q", pong)
	}
	length, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(length, "$")))
	if err != nil {
		return "", fmt.Errorf("INFO answered with %q", length)
	}
	info := make([]byte, n)
	if _, err := io.ReadFull(in, info); err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "redis_version":
			version = "Redis " + value
		case "process_id":
			if value != strconv.Itoa(pid) {
				return "", fmt.Errorf("process %s answers on %s, not ours", value, addr)
			}
		}
	}
	return version, nil
}
