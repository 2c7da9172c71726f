package servers

import "syscall"

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
