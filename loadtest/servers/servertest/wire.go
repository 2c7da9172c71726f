package servertest

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

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
