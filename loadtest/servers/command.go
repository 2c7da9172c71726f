package servers

import (
	"context"
	"os"
	"path/filepath"
)

// A Command is a server other than the stores, such as a node of the program
// itself: it is started, killed, paused and ended like them.
type Command struct {
	Path string // of the program
	// Args is the command line of a server that is to listen on addr, 127.0.0.1:port.
	Args func(addr string) []string
	// Serving returns nil once the server at addr answers requests.
	Serving func(ctx context.Context, addr string) error
}

// StartCommand starts c on a free loopback port and returns when it serves.
// ctx applies to the start only. If ctx has no deadline, the start fails after five
// minutes. Close stops the process.
func StartCommand(ctx context.Context, c Command) (*Process, error) {
	return startProcess(ctx, program{
		name:    filepath.Base(c.Path),
		path:    c.Path,
		args:    func(p *Process) []string { return c.Args(p.Addr()) },
		serving: func(ctx context.Context, p *Process, _ int) (string, error) { return "", c.Serving(ctx, p.Addr()) },
	})
}

// LogTail returns the last lines that the running server has written, at most
// 2 KiB, and nothing when none runs.
func (p *Process) LogTail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return ""
	}
	return p.child.logTail()
}

// Log returns all that the server has written, over all its starts. Close
// removes it.
func (p *Process) Log() ([]byte, error) { return os.ReadFile(p.logFile()) }
