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

// child is one running program. A goroutine of startChild waits for it.
type child struct {
	cmd    *exec.Cmd
	log    string        // file to which the program appends its output
	logged int64         // length of log when the program started
	exited chan struct{} // closed once the program has ended and been reaped
	err    error         // result of Wait; set before exited is closed
}

// startChild runs a program with the given variables added to its environment. Its stdout and
// stderr are appended to logFile.
func startChild(program string, args []string, logFile string, variables ...string) (*child, error) {
	// A file needs no goroutine that copies, as a pipe would, and it survives this
	// process.
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("servers: open the log of %s: %w", program, err)
	}
	defer log.Close() // the child has its own copy of the descriptor
	before, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("servers: open the log of %s: %w", program, err)
	}

	cmd := exec.Command(program, args...) //nolint:noctx // the context limits only the start, and the child outlives it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(),
		"LC_ALL=C", // English messages, and no failure because of an unknown locale
		// When MariaDB starts, it deletes all temporary tables from this folder, even
		// if another server uses them.
		"TMPDIR="+filepath.Dir(logFile),
	)
	cmd.Env = append(cmd.Env, variables...)
	cmd.SysProcAttr = childAttributes()

	c := &child{cmd: cmd, log: logFile, logged: before.Size(), exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the parent-death signal when the thread that forked ends, not
		// when the process ends. Go may end threads at any time, so this goroutine
		// keeps its thread until the child has ended.
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

// kill sends SIGKILL and waits until the child has ended.
func (c *child) kill() {
	if c.running() {
		_ = signalGroup(c.cmd.Process, syscall.SIGKILL) // fails only if the child has ended
	}
	<-c.exited
}

// stop sends SIGTERM, waits for at most patience, and then kills the child.
func (c *child) stop(patience time.Duration) {
	if c.running() {
		_ = resumeGroup(c.cmd.Process) // a paused process cannot react to SIGTERM
		if err := signalGroup(c.cmd.Process, syscall.SIGTERM); err == nil {
			select {
			case <-c.exited:
			case <-time.After(patience):
			}
		}
	}
	c.kill()
}
