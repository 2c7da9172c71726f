package servertest

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// OpenWire starts a proxy before the server at target, for the rest of the test.
func OpenWire(tb testing.TB, target string) *wire.Wire {
	tb.Helper()
	_, w := before(tb, target)
	return w
}

// RedisVia starts a proxy before the Redis of s, for the rest of the test, and returns a
// copy of s that uses the proxy.
func RedisVia(tb testing.TB, s *servers.Stores) (*servers.Stores, *wire.Wire) {
	tb.Helper()
	via, w := *s, (*wire.Wire)(nil)
	via.RedisURL, w = before(tb, s.RedisURL)
	return &via, w
}

// SQLVia starts a proxy before the SQL database of s, for the rest of the test, and returns
// a copy of s that uses the proxy.
func SQLVia(tb testing.TB, s *servers.Stores) (*servers.Stores, *wire.Wire) {
	tb.Helper()
	via, w := *s, (*wire.Wire)(nil)
	via.SQL, w = before(tb, s.SQL)
	return &via, w
}

func before(tb testing.TB, url string) (string, *wire.Wire) {
	tb.Helper()
	via, w, err := wire.OpenForURL(url)
	require(tb, err)
	tb.Cleanup(func() { closed(tb, w.Close()) })
	return via, w
}
