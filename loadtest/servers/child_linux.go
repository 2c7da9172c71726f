package servers

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes makes the kernel kill a child when its parent dies, and puts the
// child into its own process group. Ctrl-C in a terminal then does not reach the child,
// so that it still serves while the parent shuts down. A signal to the group also
// reaches processes that the child has forked.
//
// The kernel drops the death signal when the child changes its user. Therefore a server
// that root starts stays root (see asRoot).
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// untilStopped waits until all threads of a child have stopped after SIGSTOP. On a busy
// machine, some threads still run for a while.
func untilStopped(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}
