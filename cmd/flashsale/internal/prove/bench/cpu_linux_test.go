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
		t.Fatal("this process has no CPU time")
	}
	check.Eventually(t, "this process has worked", func() bool { return app.read()[0] > before[0] })
}

func TestMeterSharesTimeAmongRequests(t *testing.T) {
	if c := (meter{os.Getpid()}).start()(1000); c == nil || !math.IsNaN(c[1]) || !math.IsNaN(c[2]) {
		t.Errorf("only an app: %v", c)
	}
	if c := (meter{os.Getpid(), os.Getpid()}).start()(1000); c == nil || math.IsNaN(c[1]) {
		t.Errorf("an app and a store: %v", c)
	}
	// No such process: nothing is known, rather than nothing was used.
	if c := (meter{1 << 30}).start()(1000); c != nil {
		t.Errorf("a process that is not there used %v", c)
	}
	if c := (meter{os.Getpid()}).start()(0); c != nil {
		t.Errorf("shared among nobody: %v", c)
	}
}
