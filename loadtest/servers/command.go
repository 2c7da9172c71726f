package servers

import (
	"context"
	"os"
	"path/filepath"
)

// A Command is a server other than the stores, such as a node of the program itself.
type Command struct {
	Path string // path of the program
	// Args returns the command line of a server that listens on addr, which is
	// 127.0.0.1:port.
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

// LogTail returns the last lines that the server has written since its last start, at
// most 2 KiB. It returns "" if the server has not been started.
func (p *Process) LogTail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return ""
	}
	return p.child.logTail()
}

// Log returns all output of the server since the first start. Close removes it.
func (p *Process) Log() ([]byte, error) { return os.ReadFile(p.logFile()) }
