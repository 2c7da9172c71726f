package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	processes = 8
	hold      = time.Millisecond
	think     = 2 * time.Millisecond
)

// pairs are what one process does alone.
type pairs struct {
	perSecond float64
	requests  float64 // per pair
	allocs    float64 // per pair
}

func uncontended(ctx context.Context, c lockContender, w *way, each time.Duration, goroutines int) (pairs, error) {
	p, err := c.open(w.Addr())
	if err != nil {
		return pairs{}, err
	}
	defer p.close()
	ctx, cancel := context.WithTimeout(ctx, 2*each+30*time.Second) // for one that hangs
	defer cancel()
	counts, errs := make([]int, goroutines), make([]error, goroutines)
	round := func(until time.Time) {
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				key := fmt.Sprintf("alone:%d", g)
				for errs[g] == nil && time.Now().Before(until) {
					var unlock func() error
					if unlock, errs[g] = p.lock(ctx, key); errs[g] == nil {
						errs[g] = unlock()
						counts[g]++
					}
				}
			})
		}
		all.Wait()
	}
	round(time.Now().Add(each / 10)) // connections, scripts
	clear(counts)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, requests := time.Now(), w.requests.Load()
	round(start.Add(each))
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := 0
	for g, count := range counts {
		n += count
		if errs[g] != nil {
			return pairs{}, errs[g]
		}
	}
	return pairs{
		perSecond: float64(n) / took.Seconds(),
		requests:  float64(w.requests.Load()-requests) / float64(n),
		allocs:    float64(after.Mallocs-before.Mallocs) / float64(n),
	}, nil
}

// turns are what several processes do to each other.
type turns struct {
	p50, p99, max time.Duration
	requests      float64 // per acquire
	jain, least   float64
}

// A contest is several processes that want one lock.
type contest struct {
	mu        sync.Mutex
	measuring bool
	released  time.Time // when the last holder began to release
	gaps      []time.Duration
	counts    []float64 // of each process
}

// measure begins or ends the measurement, and tells how many hand-offs it has.
func (c *contest) measure(on bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measuring = on
	return len(c.gaps)
}

// got notes that a process has the lock.
func (c *contest) got(process int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.measuring {
		return
	}
	c.counts[process]++
	if !c.released.IsZero() {
		c.gaps = append(c.gaps, now.Sub(c.released))
	}
}

func (c *contest) releases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = time.Now()
}

// take is one process that takes the lock again and again, until ctx ends.
func (c *contest) take(ctx context.Context, i int, p process) error {
	for {
		unlock, err := p.lock(ctx, "wanted")
		if ctx.Err() != nil {
			if err == nil {
				_ = unlock()
			}
			return nil
		}
		if err != nil {
			return err
		}
		c.got(i)
		time.Sleep(hold)
		c.releases()
		if err := unlock(); err != nil {
			return err
		}
		time.Sleep(think)
	}
}

// contended has processes, each with connections of its own, want one lock.
func contended(ctx context.Context, k lockContender, w *way, each time.Duration) (turns, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := contest{counts: make([]float64, processes)}
	ps := make([]process, processes)
	for i := range ps {
		p, err := k.open(w.Addr())
		if err != nil {
			return turns{}, err
		}
		defer p.close()
		ps[i] = p
	}
	var all sync.WaitGroup
	errs := make([]error, processes)
	for i, p := range ps {
		all.Go(func() {
			if errs[i] = c.take(ctx, i, p); errs[i] != nil {
				cancel()
			}
		})
	}
	_ = sleep(ctx, each/4) // until everybody waits
	requests := w.requests.Load()
	c.measure(true)
	for tries := 0; tries < 20; tries++ { // a slow one may need longer to hand over at all
		_ = sleep(ctx, each)
		if c.measure(true) > 0 {
			break
		}
	}
	c.measure(false)
	sent := w.requests.Load() - requests
	cancel()
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return turns{}, err
	}
	if len(c.gaps) == 0 {
		return turns{}, fmt.Errorf("no hand-off in %v", 20*each)
	}
	return summary(c.gaps, c.counts, sent), nil
}

func summary(gaps []time.Duration, counts []float64, requests int64) turns {
	slices.Sort(gaps)
	sum, squares := 0.0, 0.0
	for _, n := range counts {
		sum += n
		squares += n * n
	}
	n := float64(len(counts))
	return turns{
		p50: gaps[len(gaps)/2], p99: gaps[len(gaps)*99/100], max: gaps[len(gaps)-1],
		requests: float64(requests) / sum,
		jain:     sum * sum / (n * squares),
		least:    slices.Min(counts) / (sum / n),
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
