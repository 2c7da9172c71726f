package check

import (
	"bytes"
	"log/slog"
	"os"
	"sync"
	"testing"
)

// kept is the number of bytes at the end of a log that a Tail keeps at least. It keeps at
// most about twice that number.
const kept = 32 << 10

// Log returns a logger for the components that a test starts. If the test fails, it
// prints the end of the log. If FLASHSALE_TEST_LOG is set, each line is also written to
// standard error at once.
func Log(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(Output(t), nil)) }

// Output is like Log, but returns a writer for unstructured text, such as the output of
// another process.
func Output(t testing.TB) *Tail {
	tail := &Tail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the end of the log:\n" + tail.String())
		}
	})
	return tail
}

// A Tail is an io.Writer that keeps the end of the text written to it. It is safe for
// concurrent use, and may be written to after its test has ended.
type Tail struct {
	mu          sync.Mutex
	older, last bytes.Buffer
}

// Write appends b. It never fails.
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

// String returns the text that w has kept.
func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.older.String() + w.last.String()
}
