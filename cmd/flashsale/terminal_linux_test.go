package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"flashsale/loadtest/servers/servertest/check"
)

// terminal returns the two ends of a new one: what a program has, and what a person sees.
func terminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	check.Must(t, err)
	t.Cleanup(func() { _ = person.Close() })
	var number, unlocked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	check.Must(t, err)
	return program, person
}

// Who starts a server by hand sees where to click. What is no terminal has no such
// lines; the log says what the server came to be.
func TestServeWelcomes(t *testing.T) {
	for _, onStdout := range []bool{true, false} {
		program, person := terminal(t)
		var log bytes.Buffer
		s, args := streams{out: &log, err: program}, []string{"serve", "--addr", "127.0.0.1:0"}
		if onStdout {
			s, args = streams{out: program, err: &log}, append(args, "--secret", strings.Repeat("own", 11))
		}
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		served := make(chan error, 1)
		go func() {
			served <- errors.Join(run(ctx, args, s.out, s.err), program.Close())
		}()
		var seen string
		for lines := bufio.NewScanner(person); !strings.Contains(seen, "flashsale crowd --target") && lines.Scan(); {
			seen += lines.Text() + "\n"
		}
		stop()
		check.Must(t, <-served)
		says(t, seen+log.String(), "demo=true", "Shop  http://127.0.0.1:", "/ops", "/docs", `trusted-proxies="[127.0.0.1 ::1]"`)
		if strings.Contains(log.String(), "/ops") {
			t.Errorf("what is no terminal says:\n%s", &log)
		}
	}
}
