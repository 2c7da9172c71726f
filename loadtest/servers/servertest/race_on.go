//go:build race

package servertest

// Race reports whether the race detector is on. Because it makes tests several times
// slower, some tests repeat their work less often.
const Race = true
