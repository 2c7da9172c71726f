//go:build unix && !linux

package servers

import "syscall"

// childAttributes: a process group for each child, as on Linux. Nothing here
// ends a child whose parent was killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// untilStopped: nothing here tells when the last thread has stopped.
func untilStopped(int) error { return nil }
