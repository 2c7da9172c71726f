// Package check contains the assertions, waits and logs that all tests of the module
// share. It imports no other package of the module, so every test can use it, and a
// copy of a package needs to copy little else.
//
// To check an error, use Must if the test cannot continue after it, OK if it can, and
// Is if a certain error is expected. Err drops the other result of a call:
//
//	check.Must(t, check.Err(store.Migrate(ctx)))
//
// To wait, use Receive if a channel signals the event, and Eventually if only a condition
// shows it. Pass Context to calls that block. Each wait lasts until the Deadline of the
// test, so a slow machine does not fail a test. A test of a duration must not measure real
// time: run it in a bubble of testing/synctest.
//
// To make a failure understandable without a second run, pass Log or Output to the
// components that the test starts, and take random numbers from Rand.
package check

import (
	"errors"
	"fmt"
)

// T contains the methods of a test that assertions call. *testing.T, *testing.B,
// testing.TB and rapid.TB implement it.
type T interface {
	Helper()
	Fatal(args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
}

// Must ends the test if err is not nil.
func Must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Sprintf("got error %v, want none", err))
	}
}

// OK marks the test as failed if err is not nil. The test continues.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

// Is marks the test as failed unless errors.Is(err, want). The test continues.
func Is(t T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// Err returns err, and drops the other result of a call.
func Err[V any](_ V, err error) error { return err }
