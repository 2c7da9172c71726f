package admission

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

// TestMain fails if the tests leave a goroutine behind.
func TestMain(m *testing.M) {
	servertest.Prepare()
	goleak.VerifyTestMain(m)
}

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
