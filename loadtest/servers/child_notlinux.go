//go:build unix && !linux

package servers

import "syscall"

// childAttributes puts the child into its own process group. On these systems, a child
// is not ended when its parent is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// untilStopped does nothing: these systems do not report when all threads have stopped.
func untilStopped(int) error { return nil }
