package servers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// actAsParent, set in the environment, makes the test binary start servers and wait to be
// killed.
const actAsParent = "FLASHSALE_SERVERS_TEST_PARENT"

// parentToBeKilled prints a name and a pid for each child, and then blocks.
func parentToBeKilled() {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	// This child has no death signal, to prove that the test can fail.
	orphan := exec.Command("sleep", "600")
	fail(orphan.Start())
	fmt.Println("orphan", orphan.Process.Pid)
	s, err := StartReal(ctx, Config{})
	fail(err)
	fmt.Println("server", s.Redis.Pid())
	fmt.Println("server", s.MySQL.Pid())
	fmt.Println("ready 0")
	select {}
}

func TestServersDieWithAKilledParent(t *testing.T) {
	needReal(t)
	_, noRedis := findRedis(nil)
	need(t, noRedis)
	_, noMySQL := findMySQL(nil)
	need(t, noMySQL)

	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), actAsParent+"=1", "TMPDIR="+t.TempDir())
	out, err := parent.StdoutPipe()
	need(t, err)
	need(t, parent.Start())
	defer parent.Wait() //nolint:errcheck // killed: always an error

	var orphan int
	var serverPids []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		pid, err := strconv.Atoi(rest)
		if err != nil {
			t.Fatalf("output of the parent: got %q, want a name and a pid", lines.Text())
		}
		switch name {
		case "orphan":
			orphan = pid
			defer syscall.Kill(orphan, syscall.SIGKILL) //nolint:errcheck
		case "server":
			serverPids = append(serverPids, pid)
		}
		if name == "ready" {
			break
		}
	}
	if len(serverPids) != 2 {
		t.Fatalf("pids of servers: got %v, want two", serverPids)
	}
	for _, pid := range append(serverPids, orphan) {
		if ended(pid) {
			t.Fatalf("process %d: got its end before that of its parent, want it to live until then", pid)
		}
	}

	need(t, parent.Process.Kill())
	for _, pid := range serverPids {
		check.Eventually(t, fmt.Sprintf("ended: %d", pid), func() bool { return ended(pid) })
	}
	if ended(orphan) {
		t.Error("child without a death signal: got its end with its parent, want it to live")
	}
}

// Linux sends the death signal when the thread that started the child ends. A child of
// startChild survives, because its thread is kept.
func TestDeathSignalDependsOnThread(t *testing.T) {
	ctx := check.Context(t)
	c := exec.CommandContext(ctx, "sleep", "600")
	c.SysProcAttr = childAttributes()
	var err error
	onAThreadThatEnds(func() { err = c.Start() })
	need(t, err)
	err = c.Wait()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL || ctx.Err() != nil {
		t.Errorf("child of an ended thread: got error %v, context %v, want SIGKILL from the kernel", err, ctx.Err())
	}

	sleep, err := exec.LookPath("sleep")
	need(t, err)
	kept, err := startChild(sleep, []string{"600"}, filepath.Join(t.TempDir(), "log"))
	need(t, err)
	for range 100 {
		onAThreadThatEnds(func() {})
	}
	if !kept.running() {
		t.Error("child of startChild: got its end with a thread, want it to live")
	}
	kept.kill()
}

// onAThreadThatEnds runs f on a thread that ends afterwards, because its goroutine ends
// while it is locked to the thread.
func onAThreadThatEnds(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			// The main thread never ends. While this goroutine is locked to it, the nested call runs on
			// another thread.
			onAThreadThatEnds(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// ended reports whether a process is gone or a zombie. The new parent of an orphan may
// reap it late.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The line is "pid (name) state …". A name may contain spaces and brackets.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
