//go:build !unix

package servers

import (
	"errors"
	"os"
	"syscall"
)

// Processes cannot be grouped or paused on these systems.

func childAttributes() *syscall.SysProcAttr { return nil }

func signalGroup(p *os.Process, s syscall.Signal) error { return p.Signal(s) }

func pauseGroup(*os.Process) error  { return errors.ErrUnsupported }
func resumeGroup(*os.Process) error { return errors.ErrUnsupported }
