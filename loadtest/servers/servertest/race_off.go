//go:build !race

package servertest

// Race tells whether the race detector watches.
const Race = false
