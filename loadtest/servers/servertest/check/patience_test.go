package check_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// Waits fail 20 seconds before the -timeout of the test binary.
func TestPatience(t *testing.T) {
	const limit = 10 * time.Minute
	for name, c := range map[string]struct {
		good  time.Duration // time until the condition holds
		fails bool
	}{
		"at once":  {0, false},
		"in time":  {limit - 21*time.Second, false},
		"too late": {limit - 19*time.Second, true},
		"never":    {1000 * time.Hour, true},
	} {
		waits := map[string]func(t testing.TB, began time.Time){
			"Eventually": func(t testing.TB, began time.Time) {
				check.Eventually(t, name, func() bool { return time.Since(began) >= c.good })
			},
			"Receive": func(t testing.TB, began time.Time) {
				check.Receive(t, name, time.After(c.good))
			},
			"Context": func(t testing.TB, began time.Time) {
				select {
				case <-check.Context(t).Done():
					t.Fatalf("over")
				case <-time.After(c.good):
				}
			},
		}
		for kind, wait := range waits {
			synctest.Test(t, func(t *testing.T) { // on a fake clock
				fake := &ending{TB: t, end: time.Now().Add(limit)}
				done := make(chan struct{})
				go func() {
					defer close(done)
					wait(fake, time.Now())
				}()
				<-done
				if fake.failed != c.fails {
					t.Errorf("wait %s, %s: got failed %v, want %v", kind, name, fake.failed, c.fails)
				}
			})
		}
	}
}

// The log of a test is printed only if the test fails.
func TestLog(t *testing.T) {
	for _, fails := range []bool{true, false} {
		fake := &ending{TB: t, failed: fails}
		log := check.Log(fake)
		for range 5000 {
			log.Info("an old line")
		}
		log.Info("the last line")
		for _, f := range fake.cleanups {
			f()
		}
		text := fake.printed.String()
		if strings.Contains(text, "the last line") != fails {
			t.Errorf("test that failed (%v): got log %q", fails, text)
		}
		if len(text) > 100_000 {
			t.Errorf("log: got %d bytes, want at most 100,000", len(text))
		}
	}
}

// A failed test prints its seed, and the seed repeats the random numbers.
func TestRand(t *testing.T) {
	fake := &ending{TB: t, failed: true}
	first := check.Rand(fake).Uint64()
	fake.cleanups[0]()
	_, seed, _ := strings.Cut(fake.printed.String(), "=")
	t.Setenv("FLASHSALE_TEST_SEED", seed)
	if second := check.Rand(fake).Uint64(); second != first {
		t.Errorf("seed %s: got %d, want %d again", seed, second, first)
	}
}

// ending is a fake testing.TB that records whether it has failed.
type ending struct {
	testing.TB
	end      time.Time
	failed   bool
	printed  bytes.Buffer
	cleanups []func()
}

func (e *ending) Deadline() (time.Time, bool) { return e.end, true }
func (e *ending) Failed() bool                { return e.failed }
func (e *ending) Cleanup(f func())            { e.cleanups = append(e.cleanups, f) }
func (e *ending) Log(args ...any) {
	for _, a := range args {
		e.printed.WriteString(a.(string))
	}
}

func (e *ending) Logf(format string, args ...any) { fmt.Fprintf(&e.printed, format, args...) }

func (e *ending) Fatalf(string, ...any) {
	e.failed = true
	runtime.Goexit()
}
