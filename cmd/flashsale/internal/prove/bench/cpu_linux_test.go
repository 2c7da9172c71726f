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
		t.Fatal("CPU time of this process: got none, want one")
	}
	check.Eventually(t, "this process has worked", func() bool { return app.read()[0] > before[0] })
}

func TestMeterDividesTimeByRequests(t *testing.T) {
	if c := (meter{os.Getpid()}).start()(1000); c == nil || !math.IsNaN(c[1]) || !math.IsNaN(c[2]) {
		t.Errorf("CPU time of the app alone: got %v, want NaN for the stores", c)
	}
	if c := (meter{os.Getpid(), os.Getpid()}).start()(1000); c == nil || math.IsNaN(c[1]) {
		t.Errorf("CPU time of app and Redis: got %v, want a time for both", c)
	}
	// The CPU time of a missing process is unknown, not 0.
	if c := (meter{1 << 30}).start()(1000); c != nil {
		t.Errorf("CPU time of a missing process: got %v, want nil", c)
	}
	if c := (meter{os.Getpid()}).start()(0); c != nil {
		t.Errorf("CPU time without requests: got %v, want nil", c)
	}
}
