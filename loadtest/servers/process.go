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

// Time limits: for the start of a server if its context has no deadline, and for an
// orderly stop.
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

// ErrClosed means that the server was closed, and its directory with it.
var ErrClosed = errors.New("servers: closed")

// program is what differs between the servers.
type program struct {
	name string // as it is called in errors
	path string
	// args is the command line for a server that keeps its data in data.
	args func(p *Process) []string
	env  []string // variables in its environment
	// initialise fills p.data, which is empty; nil for what does that by itself.
	initialise func(ctx context.Context, p *Process) error
	// serving fails until the process with this pid answers requests, and then
	// returns the version that it says it is.
	serving func(ctx context.Context, p *Process, pid int) (version string, err error)
}

// Process is a private server: one child process at a time, with a port and a
// directory that outlive it, so that it can be killed, paused and started again
// as a machine would do it. Its methods may be called from several goroutines.
type Process struct {
	Version string // such as "Redis 7.0.15"; empty: a Command

	program
	dir  string // everything it writes: log, socket, data
	data string // dir/data
	port int

	mu     sync.Mutex
	child  *child // nil when none was started
	closed bool
}

// startProcess starts a program in a fresh directory, on a free port.
func startProcess(ctx context.Context, prog program) (*Process, error) {
	dir, err := shortTempDir()
	if err != nil {
		return nil, fmt.Errorf("servers: directory for %s: %w", prog.name, err)
	}
	p := &Process{program: prog, dir: dir, data: filepath.Join(dir, "data")}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	// Between finding a free port and the server's taking it, another process
	// may have it. Nobody knows our port yet, so we move on to the next one.
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

// prepare makes the directory of the data.
func (p *Process) prepare(ctx context.Context) error {
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return fmt.Errorf("servers: directory for the data of %s: %w", p.name, err)
	}
	if p.initialise == nil {
		return nil
	}
	return p.initialise(ctx, p)
}

// run starts the child and waits until it serves. Callers hold mu, or are alone.
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

// Addr is the server's address, 127.0.0.1:port: the same for its whole life.
func (p *Process) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Pid is the running child's process id, 0 if none is running.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil || !p.child.running() {
		return 0
	}
	return p.child.cmd.Process.Pid
}

// Kill ends the server at once (SIGKILL), as a power cut would end it for its
// clients, and returns when it is gone. Its directory stays for Restart.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		p.child.kill()
	}
}

// Pause stops the server where it stands (SIGSTOP): connections stay open, new
// ones are still accepted by the kernel, nothing answers.
func (p *Process) Pause() error { return p.signal("pause", pauseGroup) }

// Resume lets a paused server go on (SIGCONT).
func (p *Process) Resume() error { return p.signal("resume", resumeGroup) }

func (p *Process) signal(verb string, send func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil || !p.child.running() {
		return fmt.Errorf("servers: %s %s: not running", verb, p.name)
	}
	if err := send(p.child.cmd.Process); err != nil {
		return fmt.Errorf("servers: %s %s: %w", verb, p.name, err)
	}
	return nil
}

// Restart brings the server up again on its port with the data that is in its
// directory. If it still runs it is first stopped in good order; to restart
// after a crash, Kill it before. It returns when the server serves.
func (p *Process) Restart(ctx context.Context) error { return p.restart(ctx, false) }

// RestartEmpty is Restart with all data lost.
func (p *Process) RestartEmpty(ctx context.Context) error { return p.restart(ctx, true) }

func (p *Process) restart(ctx context.Context, empty bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("%w: restart %s", ErrClosed, p.name)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if p.child != nil {
		p.child.stop(stopPatience)
		p.child = nil
	}
	if empty {
		if err := os.RemoveAll(p.data); err != nil {
			return fmt.Errorf("servers: empty %s: %w", p.name, err)
		}
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	for {
		_, err := p.run(ctx)
		// The port is known to clients now, so it can't change. What took it
		// meanwhile is as a rule a client's outgoing connection: wait for its end.
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return err
		}
	}
}

// Close ends the server, waits for its end and removes its directory. Further
// calls do nothing.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.child != nil {
		p.child.kill() // no good order: what it would save is removed anyway
		p.child = nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("servers: remove the directory of %s: %w", p.name, err)
	}
	return nil
}
