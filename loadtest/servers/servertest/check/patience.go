package check

import (
	"context"
	"testing"
	"time"
)

// toReport is the time that a test reserves to print its log after a wait has failed.
const toReport = 20 * time.Second

// Deadline returns the time at which the waits of a test fail: 20 seconds before go test's
// -timeout, which leaves time to print the log. No wait in a test should have an earlier
// deadline. If there is no -timeout, in benchmarks, and in a bubble of testing/synctest,
// Deadline is an hour from now.
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

// Context returns a context that is cancelled when the test ends or at its Deadline.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), Deadline(t))
	t.Cleanup(cancel)
	return ctx
}

// Eventually calls ok every five milliseconds until ok returns true. If that does not
// happen before the Deadline, Eventually ends the test with a message that contains what.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := Deadline(t); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until: %s", what)
		}
	}
}

// Receive returns the next value from c, or the zero value if c is closed. If that does
// not happen before the Deadline, Receive ends the test with a message that contains what.
func Receive[V any](t testing.TB, what string, c <-chan V) (v V) {
	t.Helper()
	timer := time.NewTimer(time.Until(Deadline(t)))
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatalf("timed out waiting for: %s", what)
	}
	return v
}
