//go:build !linux

package servers

import (
	"os"
	"syscall"
)

// Only Linux ends the children of a killed parent, so there is no test elsewhere.

const actAsParent = "FLASHSALE_SERVERS_TEST_PARENT"

func parentToBeKilled() {}

// ended reports whether a process is gone. A zombie counts as running.
func ended(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || p.Signal(syscall.Signal(0)) != nil
}
