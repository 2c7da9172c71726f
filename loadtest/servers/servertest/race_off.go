//go:build !race

package servertest

// Race reports whether the race detector is on.
const Race = false
