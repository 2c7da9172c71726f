package check

import (
	"context"
	"testing"
	"time"
)

// toReport is what a test keeps of its time to print its log after it gave up.
const toReport = 20 * time.Second

// Deadline returns when a test gives up: the end of go test's -timeout, less the
// time to print what the test knows. No wait in a test has an earlier deadline,
// so a slow machine alone fails none. Without -timeout, in benchmarks, and in a bubble
// of testing/synctest, it is in an hour.
func Deadline(t testing.TB) (end time.Time) {
	defer func() {
		if recover() != nil { // T.Deadline panics in a bubble
			end = time.Now().Add(time.Hour)
		}
	}()
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return end.Add(-toReport)
		}
	}
	return time.Now().Add(time.Hour)
}

// Context returns a context that ends with the test, or at its Deadline.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), Deadline(t))
	t.Cleanup(cancel)
	return ctx
}

// Eventually calls ok every five milliseconds until it returns true. It ends the
// test if that is not so by the test's Deadline.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := Deadline(t); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting: %s", what)
		}
	}
}

// Receive returns the next value from c, or the zero value if c is closed. It
// ends the test if there is none by the test's Deadline.
func Receive[V any](t testing.TB, what string, c <-chan V) (v V) {
	t.Helper()
	timer := time.NewTimer(time.Until(Deadline(t)))
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("gave up waiting: %s", what)
	}
	return v
}
