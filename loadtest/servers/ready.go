package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	pollEvery   = 5 * time.Millisecond
	askPatience = 2 * time.Second // for one question to a server that may be busy starting
	maxSocket   = 100             // bytes in a socket's path: the kernels' limits are 104 and 108
)

// errPortTaken: the server ended because somebody else has its port.
var errPortTaken = errors.New("servers: port taken")

// awaitServing waits until the child serves, has ended, or ctx is done. The
// errors carry the end of the server's log: the reason is rarely anywhere else.
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
			// Servers pass on the system's own words (in English, see startChild); Go
			// begins them with a small letter.
			if strings.Contains(strings.ToLower(tail), "address already in use") {
				return "", fmt.Errorf("%w: %s on port %d", errPortTaken, p.name, p.port)
			}
			return "", fmt.Errorf("servers: %s ended while starting (%s), its log ends:\n%s", p.name, c.cmd.ProcessState, tail)
		case <-ctx.Done():
			return "", fmt.Errorf("servers: %s does not serve (%w): %w, its log ends:\n%s",
				p.name, context.Cause(ctx), notYet, c.logTail())
		case <-tick.C:
		}
	}
}

func (p *Process) logFile() string { return filepath.Join(p.dir, "log") }

// FreeAddr asks the system for a loopback address that is free at this moment.
func FreeAddr(ctx context.Context) (string, error) {
	port, err := freePort(ctx)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("servers: free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// shortTempDir makes a directory in which a socket fits: the path of a Unix
// socket is limited, and some systems' temporary folders are nearly that long.
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
