package bench

import (
	"math"
	"os"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

func TestCPUTimeGrowsWithWork(t *testing.T) {
	app := meter{os.Getpid()}
	before := app.read()
	if before == nil {
		t.Fatal("got no CPU time of this process")
	}
	check.Eventually(t, "this process has worked", func() bool { return app.read()[0] > before[0] })
}

func TestMeterDividesTimeByRequests(t *testing.T) {
	if c := (meter{os.Getpid()}).start()(1000); c == nil || !math.IsNaN(c[1]) || !math.IsNaN(c[2]) {
		t.Errorf("app alone: got %v, want NaN for the stores", c)
	}
	if c := (meter{os.Getpid(), os.Getpid()}).start()(1000); c == nil || math.IsNaN(c[1]) {
		t.Errorf("app and Redis: got %v, want a time for both", c)
	}
	// The CPU time of a missing process is unknown, not 0.
	if c := (meter{1 << 30}).start()(1000); c != nil {
		t.Errorf("missing process: got %v, want nil", c)
	}
	if c := (meter{os.Getpid()}).start()(0); c != nil {
		t.Errorf("no requests: got %v, want nil", c)
	}
}
