package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is one running program. Its goroutine, begun by startChild, ends with it.
type child struct {
	cmd    *exec.Cmd
	log    string        // the file it writes to, after what others have written before
	logged int64         // the length of log when it started
	exited chan struct{} // closed when the program is gone and reaped
	err    error         // how it ended; read after exited
}

// startChild runs a program, with these variables in its environment, that writes
// both its outputs to logFile.
func startChild(program string, args []string, logFile string, variables ...string) (*child, error) {
	// A file, not a pipe: no goroutine has to copy, and the log survives us.
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("servers: log of %s: %w", program, err)
	}
	defer log.Close() // the child has its own copy of the descriptor
	before, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("servers: log of %s: %w", program, err)
	}

	cmd := exec.Command(program, args...) //nolint:noctx // a context bounds the start, the child goes on after it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(),
		"LC_ALL=C", // messages in English, and no start refused for an odd locale
		// A MariaDB that starts deletes what looks like its own temporary tables
		// in the folder for temporary files, also those of another one.
		"TMPDIR="+filepath.Dir(logFile),
	)
	cmd.Env = append(cmd.Env, variables...)
	cmd.SysProcAttr = childAttributes()

	c := &child{cmd: cmd, log: logFile, logged: before.Size(), exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the parent-death signal when the *thread* that forked ends,
		// not the process. Go ends threads as it likes, so this goroutine keeps
		// its thread to itself for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", program, err)
	}
	return c, nil
}

// running reports whether the child has not ended yet.
func (c *child) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// logTail returns the last lines that the child has written, at most 2 KiB.
func (c *child) logTail() string {
	const limit = 2 << 10
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	b = b[min(c.logged, int64(len(b))):]
	if len(b) > limit {
		b = b[len(b)-limit:]
	}
	return strings.TrimSpace(string(b))
}

// kill ends the child without a chance to save anything, and waits for its end.
func (c *child) kill() {
	if c.running() {
		_ = signalGroup(c.cmd.Process, syscall.SIGKILL) // fails only if it is gone already
	}
	<-c.exited
}

// stop asks the child to finish in good order, for at most patience, then kills it.
func (c *child) stop(patience time.Duration) {
	if c.running() {
		_ = resumeGroup(c.cmd.Process) // a paused process cannot act on the request
		if err := signalGroup(c.cmd.Process, syscall.SIGTERM); err == nil {
			select {
			case <-c.exited:
			case <-time.After(patience):
			}
		}
	}
	c.kill()
}
