package servers

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes makes a child die with its parent, however the parent dies,
// and puts it into a process group of its own: Ctrl-C in a terminal reaches us
// alone, so that a server is still there while we finish in good order, and a
// signal to the group reaches what the server has forked (Redis, rewriting its
// log).
//
// The kernel forgets the death signal when the child changes its user. That is
// why a server started by root stays root (see asRoot).
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// untilStopped returns when the last thread of a child that was sent SIGSTOP has
// stopped: on a busy machine its others go on meanwhile.
func untilStopped(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}
