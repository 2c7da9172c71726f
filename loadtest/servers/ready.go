package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	pollEvery   = 5 * time.Millisecond
	askPatience = 2 * time.Second // timeout of one query to a server that may be starting
	maxSocket   = 100             // maximum length of a socket's path in bytes; kernels allow 104 or 108
)

// errPortTaken means that the server ended because another process has its port.
var errPortTaken = errors.New("servers: the port is taken by another process")

// awaitServing waits until the child serves or ends, or ctx is done. An error contains
// the end of the server's log, which is often the only place with the reason.
func (p *Process) awaitServing(ctx context.Context, c *child) (version string, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ask, cancel := context.WithTimeout(ctx, askPatience)
		version, notYet := p.serving(ask, p, c.cmd.Process.Pid)
		cancel()
		if notYet == nil {
			return version, nil
		}
		select {
		case <-c.exited:
			tail := c.logTail()
			// This is the message of the system, in English because of LC_ALL. Go
			// programs print it in lower case.
			if strings.Contains(strings.ToLower(tail), "address already in use") {
				return "", fmt.Errorf("%w: %s on port %d", errPortTaken, p.name, p.port)
			}
			return "", fmt.Errorf("servers: %s ended while starting (%s); its log ends:\n%s", p.name, c.cmd.ProcessState, tail)
		case <-ctx.Done():
			return "", fmt.Errorf("servers: wait for %s to serve: %w: %w; its log ends:\n%s",
				p.name, context.Cause(ctx), notYet, c.logTail())
		case <-tick.C:
		}
	}
}

func (p *Process) logFile() string { return filepath.Join(p.dir, "log") }

// FreeAddr returns a loopback address that is free at this moment.
func FreeAddr(ctx context.Context) (string, error) {
	port, err := freePort(ctx)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// Ports from firstPort are below the ports that systems give to outgoing connections. Such a
// connection, or another process, could otherwise take a free port before the server listens there.
const firstPort, portCount = 10_000, 22_000

var lastPort = rand.Uint32N(portCount)

func freePort(ctx context.Context) (int, error) {
	for range portCount {
		port := firstPort + int(atomic.AddUint32(&lastPort, 1)%portCount)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return 0, errors.New("servers: no loopback port is free")
}

// shortTempDir creates a directory in which a Unix socket fits. The temporary folder of
// some systems is too long for the path of a socket.
func shortTempDir() (string, error) {
	dir, err := os.MkdirTemp("", "flashsale-")
	if err != nil || len(filepath.Join(dir, "sock")) < maxSocket {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "flashsale-")
}
