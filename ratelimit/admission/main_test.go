package admission

import (
	"testing"

	"go.uber.org/goleak"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// epoch is the first time of a server that servertest.StartWithFrozenClock starts.
var epoch = servertest.Epoch

// TestMain fails if a goroutine is left at the end.
func TestMain(m *testing.M) {
	servertest.Prepare()
	goleak.VerifyTestMain(m)
}

func forBuyer(id string, l limit.Limit) ratelimit.Bucket {
	return ratelimit.Bucket{Name: "buyer", ID: id, Limit: l}
}

// parse returns a limit whose text is valid.
func parse(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := limit.Parse(text)
	check.Must(t, err)
	return l
}
