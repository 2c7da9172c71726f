package servertest_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest"
)

func TestEventually(t *testing.T) {
	for name, c := range map[string]struct {
		good  time.Duration // how long it takes to become so
		fails bool
	}{
		"at once":  {0, false},
		"in time":  {59 * time.Second, false},
		"too late": {61 * time.Second, true},
		"never":    {1000 * time.Hour, true},
	} {
		synctest.Test(t, func(t *testing.T) { // its minute is over at once
			began, fake := time.Now(), &ending{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				servertest.Eventually(fake, name, func() bool { return time.Since(began) >= c.good })
			}()
			<-done
			if fake.failed != c.fails {
				t.Errorf("%s: failed %v", name, fake.failed)
			}
		})
	}
}

// ending is a test that notes its end.
type ending struct {
	testing.TB
	failed bool
}

func (e *ending) Fatalf(string, ...any) {
	e.failed = true
	runtime.Goexit()
}
