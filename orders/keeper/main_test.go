package keeper_test

import (
	"flag"
	"os"
	"testing"

	"flashsale/loadtest/servers/servertest"
)

func TestMain(m *testing.M) {
	if servertest.Race || os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		_ = flag.Set("rapid.checks", "30") // instead of 100; the command line has the last word
	}
	_ = flag.Set("test.parallel", "4") // for the race detector; without it servertest.Main allows more
	servertest.Main(m)
}
