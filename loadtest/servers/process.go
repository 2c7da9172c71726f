package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Time limits: startPatience applies to the start of a server if its context has no
// deadline, stopPatience to a graceful stop.
const (
	startPatience = 5 * time.Minute
	stopPatience  = 20 * time.Second
)

// bounded returns ctx, with a timeout of startPatience if ctx has no deadline.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, startPatience)
}

// ErrClosed means that the server has been closed and its directory removed.
var ErrClosed = errors.New("the server is closed")

// program describes how to run one kind of server.
type program struct {
	name string // name in errors
	path string
	// args returns the command line of a server that stores its data in p.data.
	args func(p *Process) []string
	env  []string // variables added to the environment
	// initialise fills the empty directory p.data. It is nil if the server does that
	// itself.
	initialise func(ctx context.Context, p *Process) error
	// serving returns an error until the process pid answers requests, and then the
	// version of the server.
	serving func(ctx context.Context, p *Process, pid int) (version string, err error)
}

// Process is a private server: a port, a directory, and at most one child process at a
// time. The child can be killed, paused and restarted with the same port and directory.
// Methods are safe for concurrent use.
type Process struct {
	Version string // such as "Redis 7.0.15"; empty for a Command

	program
	dir  string // directory of log, socket and data
	data string // dir/data
	port int

	mu     sync.Mutex
	child  *child // nil if no child was started
	closed bool
}

// startProcess starts a program in a new directory and on a free port.
func startProcess(ctx context.Context, prog program) (*Process, error) {
	dir, err := shortTempDir()
	if err != nil {
		return nil, fmt.Errorf("servers: create the directory of %s: %w", prog.name, err)
	}
	p := &Process{program: prog, dir: dir, data: filepath.Join(dir, "data")}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	// Another process may take the port before the server does. Then try another port,
	// since no client knows it yet.
	for {
		if p.port, err = freePort(ctx); err == nil {
			p.Version, err = p.run(ctx)
		}
		switch {
		case err == nil:
			return p, nil
		case !errors.Is(err, errPortTaken) || ctx.Err() != nil:
			return nil, errors.Join(err, p.Close())
		}
	}
}

// prepare creates the data directory.
func (p *Process) prepare(ctx context.Context) error {
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return fmt.Errorf("servers: create the data directory of %s: %w", p.name, err)
	}
	if p.initialise == nil {
		return nil
	}
	return p.initialise(ctx, p)
}

// run starts the child and waits until it serves. The caller holds mu or has the only
// reference to p.
func (p *Process) run(ctx context.Context) (version string, err error) {
	c, err := startChild(p.path, p.args(p), p.logFile(), p.env...)
	if err != nil {
		return "", err
	}
	if version, err = p.awaitServing(ctx, c); err != nil {
		c.kill()
		return "", err
	}
	p.child = c
	return version, nil
}

// Addr returns the address of the server, 127.0.0.1:port. It never changes.
func (p *Process) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Pid returns the process id of the child, or 0 if none is running.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil || !p.child.running() {
		return 0
	}
	return p.child.cmd.Process.Pid
}

// Kill sends SIGKILL and waits until the server has ended. Clients see the same as
// after a power failure. Restart can start the server again.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		p.child.kill()
	}
}

// Pause stops the server with SIGSTOP. Its connections stay open and the kernel still
// accepts new ones, but nothing answers.
func (p *Process) Pause() error { return p.signal("pause", pauseGroup) }

// Resume continues a paused server with SIGCONT.
func (p *Process) Resume() error { return p.signal("resume", resumeGroup) }

func (p *Process) signal(verb string, send func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil || !p.child.running() {
		return fmt.Errorf("servers: %s %s: the server is not running", verb, p.name)
	}
	if err := send(p.child.cmd.Process); err != nil {
		return fmt.Errorf("servers: %s %s: %w", verb, p.name, err)
	}
	return nil
}

// Restart starts the server again on its port with the data in its directory, and
// returns when it serves. A running server is first stopped gracefully. To restart as
// after a crash, call Kill first.
func (p *Process) Restart(ctx context.Context) error { return p.restart(ctx, false) }

// RestartEmpty is like Restart, but removes all data before the start.
func (p *Process) RestartEmpty(ctx context.Context) error { return p.restart(ctx, true) }

func (p *Process) restart(ctx context.Context, empty bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("servers: restart %s: %w", p.name, ErrClosed)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if p.child != nil {
		p.child.stop(stopPatience)
		p.child = nil
	}
	if empty {
		if err := os.RemoveAll(p.data); err != nil {
			return fmt.Errorf("servers: empty the data directory of %s: %w", p.name, err)
		}
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	for {
		_, err := p.run(ctx)
		// Clients know the port, so it cannot change. An outgoing connection of a
		// client may have taken it: retry until that connection ends.
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// Close kills the server, waits until it has ended, and removes its directory. Further
// calls do nothing.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.child != nil {
		p.child.kill() // no graceful stop, because the data is removed
		p.child = nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("servers: remove the directory of %s: %w", p.name, err)
	}
	return nil
}
