package compare

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// BenchmarkLock measures pairs of acquire and release. Each caller of one process has its own
// key.
func BenchmarkLock(b *testing.B) {
	eachLatency(b, func(b *testing.B, w *way) {
		for _, callers := range []int{1, 64} {
			for _, l := range locks {
				b.Run(fmt.Sprintf("keys=%d/%s", callers, l.name), func(b *testing.B) {
					check.Must(b, w.redis.FlushAll(b.Context()).Err())
					lock := l.open(b, w.Addr())
					pair := func(caller int) error {
						unlock, err := lock(b.Context(), fmt.Sprintf("alone:%d", caller))
						if err != nil {
							return err
						}
						return unlock()
					}
					for caller := range callers { // opens connections, and loads scripts
						check.Must(b, pair(caller))
					}
					requests := w.requests.Load()
					b.ResetTimer()
					share(b, callers, func(caller, _ int) error { return pair(caller) })
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
					b.ReportMetric(float64(w.requests.Load()-requests)/float64(b.N), "req/pair")
				})
			}
		}
	})
}

const (
	processes = 8
	hold      = time.Millisecond
	think     = 2 * time.Millisecond
	settle    = 200 * time.Millisecond // time until every process waits
)

// BenchmarkLockHandedOn measures the time from the start of a release until the next of several
// waiting processes holds the lock. Each process has its own connections. Jain is Jain's index
// of the processes' shares, which is 1 if all are equal; least-share is the smallest share
// divided by the mean.
func BenchmarkLockHandedOn(b *testing.B) {
	eachLatency(b, func(b *testing.B, w *way) {
		for _, l := range locks {
			b.Run(l.name, func(b *testing.B) {
				check.Must(b, w.redis.FlushAll(b.Context()).Err())
				ctx, stop := context.WithCancel(b.Context())
				defer stop()
				c := contest{b: b, stop: stop, way: w, began: time.Now()}
				var all sync.WaitGroup
				for i := range processes {
					lock := l.open(b, w.Addr())
					all.Go(func() {
						if err := c.take(ctx, i, lock); err != nil {
							b.Errorf("take the lock: got error %v, want none", err)
							stop()
						}
					})
				}
				all.Wait()
				c.report()
			})
		}
	})
}

// A contest is a run of several processes that wait for one lock, until b.N hand-overs.
type contest struct {
	b     *testing.B
	stop  func()
	way   *way
	began time.Time

	mu       sync.Mutex
	released time.Time // time at which the last holder began to release
	gaps     []time.Duration
	counts   [processes]float64
	requests int64
	measures bool
}

// take acquires and releases the lock for one process until ctx ends.
func (c *contest) take(ctx context.Context, process int, lock acquire) error {
	for {
		unlock, err := lock(ctx, "wanted")
		if ctx.Err() != nil {
			if err == nil {
				_ = unlock()
			}
			return nil
		}
		if err != nil {
			return err
		}
		c.got(process)
		time.Sleep(hold)
		c.mu.Lock()
		c.released = time.Now()
		c.mu.Unlock()
		if err := unlock(); err != nil {
			return err
		}
		time.Sleep(think)
	}
}

// got records that a process holds the lock.
func (c *contest) got(process int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.measures && len(c.gaps) < c.b.N:
		c.counts[process]++
		c.gaps = append(c.gaps, now.Sub(c.released))
		if len(c.gaps) == c.b.N {
			c.b.StopTimer()
			c.requests = c.way.requests.Load() - c.requests
			c.stop()
		}
	case !c.measures && now.Sub(c.began) > settle:
		c.measures, c.requests = true, c.way.requests.Load()
		c.b.ResetTimer()
	}
}

func (c *contest) report() {
	if len(c.gaps) == 0 {
		return // the benchmark has failed
	}
	slices.Sort(c.gaps)
	sum, squares := 0.0, 0.0
	for _, n := range c.counts {
		sum += n
		squares += n * n
	}
	for unit, value := range map[string]float64{
		"p50-ms":      c.gaps[len(c.gaps)/2].Seconds() * 1e3,
		"p99-ms":      c.gaps[len(c.gaps)*99/100].Seconds() * 1e3,
		"req/acquire": float64(c.requests) / sum,
		"Jain":        sum * sum / (processes * squares),
		"least-share": slices.Min(c.counts[:]) * processes / sum,
	} {
		c.b.ReportMetric(value, unit)
	}
}
