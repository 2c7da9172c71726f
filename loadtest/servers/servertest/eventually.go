package servertest

import (
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// patience is how long Eventually waits. Busy machines need most of it.
const patience = time.Minute

// Eventually asks every five milliseconds until ok, and ends the test where a
// minute was not enough.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// OpenWire puts a wire before the server at target for the rest of the test.
func OpenWire(tb testing.TB, target string) *wire.Wire {
	tb.Helper()
	_, w := before(tb, target)
	return w
}

// RedisVia leads the stores' Redis through a wire for the rest of the test.
func RedisVia(tb testing.TB, s *servers.Stores) (*servers.Stores, *wire.Wire) {
	tb.Helper()
	via, w := *s, (*wire.Wire)(nil)
	via.RedisURL, w = before(tb, s.RedisURL)
	return &via, w
}

// SQLVia leads the stores' database through a wire for the rest of the test.
func SQLVia(tb testing.TB, s *servers.Stores) (*servers.Stores, *wire.Wire) {
	tb.Helper()
	via, w := *s, (*wire.Wire)(nil)
	via.SQL, w = before(tb, s.SQL)
	return &via, w
}

func before(tb testing.TB, url string) (string, *wire.Wire) {
	tb.Helper()
	via, w, err := wire.Before(url)
	require(tb, err)
	tb.Cleanup(func() { closed(tb, w.Close()) })
	return via, w
}
