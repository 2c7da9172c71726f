//go:build race

package servertest

// Race tells that the race detector watches, which makes a test several times
// slower: what is one of many is done less often then.
const Race = true
