//go:build unix

package servers

import (
	"os"
	"syscall"
)

// signalGroup sends the signal to a child and to all processes that it has forked. The
// process group has the pid of the child.
func signalGroup(p *os.Process, s syscall.Signal) error { return syscall.Kill(-p.Pid, s) }

func pauseGroup(p *os.Process) error {
	if err := signalGroup(p, syscall.SIGSTOP); err != nil {
		return err
	}
	return untilStopped(p.Pid)
}

func resumeGroup(p *os.Process) error { return signalGroup(p, syscall.SIGCONT) }
