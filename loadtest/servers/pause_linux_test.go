package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// When Pause returns, all threads of the server have stopped, even on a busy machine.
func TestPauseStopsAllThreads(t *testing.T) {
	m := startMySQL(t, MySQLConfig{})
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for t.Context().Err() == nil { // keeps a processor busy
				runtime.Gosched()
			}
		}()
	}
	for range 200 {
		need(t, m.Pause())
		need(t, m.Pause())
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.Pid()))
		need(t, err)
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			need(t, err)
			if _, state, _ := bytes.Cut(stat, []byte(") ")); state[0] != 'T' {
				t.Fatalf("thread %s of the paused server: got %s, want state T", thread, stat)
			}
		}
		if len(threads) < 2 {
			t.Fatalf("threads: got %d, want several", len(threads))
		}
		need(t, m.Resume())
	}
}
