package bench

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestCPUTimeGrowsWithWork(t *testing.T) {
	app := meter{os.Getpid()}
	before := app.read()
	if before == nil {
		t.Fatal("this process has no CPU time")
	}
	for sum, deadline := 0, time.Now().Add(10*time.Second); ; sum++ {
		if app.read()[0] > before[0] {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v after 10 s of work (%d)", before, sum)
		}
	}
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
