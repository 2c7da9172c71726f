// Package check has the assertions that the tests of all packages share.
//
// It imports nothing of the module, so a test of any package can use it, and it
// takes few imports along into a copy.
package check

import "errors"

// T is what an assertion needs of a test. *testing.T, *testing.B, testing.TB and
// rapid's TB have it.
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
		t.Fatal(err)
	}
}

// OK fails the test if err is not nil, and the test continues.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Is fails the test if err does not wrap want, and the test continues.
func Is(t T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// Err returns the error of a call whose other result the test does not need.
func Err[V any](_ V, err error) error { return err }
