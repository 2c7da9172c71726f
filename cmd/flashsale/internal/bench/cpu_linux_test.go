package bench

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9000 9000 20 0 9 0 1234 1000 100"
	for _, c := range []struct {
		stat string
		want time.Duration
		ok   bool
	}{
		{"42 (mariadbd)" + rest, 3 * time.Second, true},
		{"42 (a) b (c)" + rest, 3 * time.Second, true}, // of itself, not of its children
		{"42 (mariadbd) S 1 7", 0, false},
		{"", 0, false},
		{"42 (x) S 1 7 7 0 -1 4194560 100 0 0 0 many 50 0 0", 0, false},
	} {
		if got, ok := parseStat(c.stat); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %v, %v; want %v, %v", c.stat, got, ok, c.want, c.ok)
		}
	}
}

func TestCPUTimeGrowsWithWork(t *testing.T) {
	before, ok := cpuTime(os.Getpid())
	if !ok {
		t.Fatal("this process has no CPU time")
	}
	for sum, deadline := 0, time.Now().Add(10*time.Second); ; sum++ {
		if now, _ := cpuTime(os.Getpid()); now > before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v after 10 s of work (%d)", before, sum)
		}
	}
}

func TestMeterSharesTimeAmongRequests(t *testing.T) {
	if cpu := (meter{app: os.Getpid()}).start()(1000); cpu == nil || cpu.Redis != nil || cpu.MySQL != nil {
		t.Errorf("only an app: %+v", cpu)
	}
	if cpu := (meter{app: os.Getpid(), redis: os.Getpid()}).start()(1000); cpu == nil || cpu.Redis == nil {
		t.Errorf("an app and a store: %+v", cpu)
	}
	// No such process: nothing is known, rather than nothing was used.
	if cpu := (meter{app: 1 << 30}).start()(1000); cpu != nil {
		t.Errorf("a process that is not there used %+v", cpu)
	}
	if cpu := (meter{app: os.Getpid()}).start()(0); cpu != nil {
		t.Errorf("shared among nobody: %+v", cpu)
	}
}
