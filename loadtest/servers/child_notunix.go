//go:build !unix

package servers

import (
	"errors"
	"os"
	"syscall"
)

// There are neither process groups nor a way to pause a process here.

func childAttributes() *syscall.SysProcAttr { return nil }

func signalGroup(p *os.Process, s syscall.Signal) error { return p.Signal(s) }

func pauseGroup(*os.Process) error  { return errors.ErrUnsupported }
func resumeGroup(*os.Process) error { return errors.ErrUnsupported }
