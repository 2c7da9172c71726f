package check

import (
	"bytes"
	"log/slog"
	"os"
	"sync"
	"testing"
)

// kept is how many bytes of its log a failed test prints at least, if it wrote
// as many; at most it prints twice as many.
const kept = 32 << 10

// Log returns a logger for what the test starts. If the test fails, the end of
// the log is printed. With FLASHSALE_TEST_LOG=1, each line goes to the terminal
// at once as well.
func Log(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(Output(t), nil)) }

// Output is Log for text that has a form of its own, such as the output of another
// process.
func Output(t testing.TB) *Tail {
	tail := &Tail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the end of the log:\n" + tail.String())
		}
	})
	return tail
}

// Tail keeps the end of what is written to it. It may be used by several
// goroutines, and after its test is over.
type Tail struct {
	mu          sync.Mutex
	older, last bytes.Buffer
}

func (w *Tail) Write(b []byte) (int, error) {
	if os.Getenv("FLASHSALE_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.Len() > kept {
		w.older, w.last = w.last, bytes.Buffer{}
	}
	return w.last.Write(b)
}

func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.older.String() + w.last.String()
}
