package httplimit

import (
	"testing"

	"go.uber.org/goleak"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// epoch is the initial time of a server that servertest.Frozen starts.
var epoch = servertest.Epoch

// Every test closes what it opens: a goroutine left at the end is a failure.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func forBuyer(id string, l limit.Limit) ratelimit.Bucket {
	return ratelimit.Bucket{Name: "buyer", ID: id, Limit: l}
}

// parse is limit.Parse for limits that are known to be good.
func parse(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := limit.Parse(text)
	check.Must(t, err)
	return l
}
