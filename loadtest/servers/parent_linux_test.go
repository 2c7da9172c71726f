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

// actAsParent, in the environment, turns the test binary into a program that
// starts servers and waits to be killed.
const actAsParent = "FLASHSALE_SERVERS_TEST_PARENT"

// parentToBeKilled prints a name and a pid for each child, then waits for ever.
func parentToBeKilled() {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	// The broken twin: a child that nobody told to die with its parent.
	orphan := exec.Command("sleep", "600")
	fail(orphan.Start())
	fmt.Println("orphan", orphan.Process.Pid)
	s, err := Real(ctx, Options{})
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
			t.Fatalf("parent says: %s", lines.Text())
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
		t.Fatalf("servers %v, want two", serverPids)
	}
	for _, pid := range append(serverPids, orphan) {
		if ended(pid) {
			t.Fatalf("process %d ended before its parent", pid)
		}
	}

	need(t, parent.Process.Kill())
	for _, pid := range serverPids {
		check.Eventually(t, fmt.Sprintf("ended: %d", pid), func() bool { return ended(pid) })
	}
	if ended(orphan) {
		t.Error("the child without the signal died, too: this test can't tell the difference")
	}
}

// Why startChild keeps a thread: without it the signal comes when the thread
// ends, with the parent in the best of health.
func TestDeathSignalComesFromTheThread(t *testing.T) {
	ctx := check.Context(t)
	c := exec.CommandContext(ctx, "sleep", "600")
	c.SysProcAttr = childAttributes()
	var err error
	onAThreadThatEnds(func() { err = c.Start() })
	need(t, err)
	err = c.Wait()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL || ctx.Err() != nil {
		t.Errorf("ended with %v (%v), want SIGKILL from the kernel", err, ctx.Err())
	}

	sleep, err := exec.LookPath("sleep")
	need(t, err)
	kept, err := startChild(sleep, []string{"600"}, filepath.Join(t.TempDir(), "log"))
	need(t, err)
	for range 100 { // threads come and go, the child stays
		onAThreadThatEnds(func() {})
	}
	if !kept.running() {
		t.Error("the child that has a thread to itself ended")
	}
	kept.kill()
}

// onAThreadThatEnds returns when f has; the thread that ran f ends then, too,
// because its goroutine ends without giving it back.
func onAThreadThatEnds(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			// The main thread never ends. While it is ours the next goroutine gets another.
			onAThreadThatEnds(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// ended reports whether a process is gone, or a zombie that nobody has reaped:
// an orphan's new parent may take its time.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// pid (name) state …; a name may hold spaces and brackets.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
