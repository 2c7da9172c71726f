package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/orders/lock/internal/nap"
)

const (
	processes = 8
	hold      = time.Millisecond
	think     = 2 * time.Millisecond
)

// locks compares locks that wait: each contender at its defaults, and as its
// documentation lets one tune it for speed.
func locks() (tables []table) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		many, turns := table{
			title:   fmt.Sprintf("lock, latency: %v", latency),
			columns: []string{"pairs/s%.0f", "req/pair%.1f"},
			notes:   []string{"A pair is an acquire and a release. 64 keys: by as many callers of one process."},
		}, table{
			title:   fmt.Sprintf("lock handed on, latency: %v", latency),
			columns: []string{"per ms%.2f", "p50 ms%.2f", "p99 ms%.2f", "req/acquire%.1f", "Jain%.3f", "least share%.2f"},
			notes: []string{
				fmt.Sprintf("%d processes want one lock, hold it for %v and think for %v; from the start of a release to the next holder:", processes, hold, think),
				"how many would fit into a ms, and how long it takes. Jain's index of the processes' shares is 1 when all are equal;",
				"least share: the smallest to the mean. Every connection passes a proxy that counts requests and adds the latency.",
			},
		}
		for _, keys := range []int{1, 64} {
			for _, c := range lockContenders {
				many.rows = append(many.rows, row{[]string{fmt.Sprintf("keys: %d", keys), c.name, c.how}, through(latency, func(ctx context.Context, w *way, each time.Duration) ([]float64, error) {
					return uncontended(ctx, c, w, each, keys)
				}), c.name != "ours"})
			}
		}
		for _, c := range lockContenders {
			turns.rows = append(turns.rows, row{[]string{"", c.name, c.how}, through(latency, func(ctx context.Context, w *way, each time.Duration) ([]float64, error) {
				return contended(ctx, c, w, each)
			}), c.name != "ours"})
		}
		tables = append(tables, many, turns)
	}
	return tables
}

// through measures by a way with latency.
func through(latency time.Duration, measure func(ctx context.Context, w *way, each time.Duration) ([]float64, error)) func(context.Context, *lab) ([]float64, error) {
	return func(ctx context.Context, lab *lab) ([]float64, error) {
		w, err := openWay(lab.redis.Addr(), latency)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		return measure(ctx, w, lab.each)
	}
}

// uncontended has each caller take a lock of its own again and again.
func uncontended(ctx context.Context, c lockContender, w *way, each time.Duration, callers int) ([]float64, error) {
	p, err := c.open(w.Addr())
	if err != nil {
		return nil, err
	}
	defer p.close()
	ctx, cancel := context.WithTimeout(ctx, 2*each+30*time.Second) // for one that hangs
	defer cancel()
	var pairs atomic.Int64
	errs := make([]error, callers)
	round := func(until time.Time) {
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				key := fmt.Sprintf("alone:%d", n)
				for errs[n] == nil && time.Now().Before(until) {
					var unlock func() error
					if unlock, errs[n] = p.lock(ctx, key); errs[n] == nil {
						errs[n] = unlock()
						pairs.Add(1)
					}
				}
			})
		}
		all.Wait()
	}
	round(time.Now().Add(each / 10)) // connections, scripts
	pairs.Store(0)
	start, requests := time.Now(), w.requests.Load()
	round(start.Add(each))
	n := float64(pairs.Load())
	return []float64{n / time.Since(start).Seconds(), float64(w.requests.Load()-requests) / n}, errors.Join(errs...)
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
func contended(ctx context.Context, k lockContender, w *way, each time.Duration) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := contest{counts: make([]float64, processes)}
	ps := make([]process, processes)
	for i := range ps {
		p, err := k.open(w.Addr())
		if err != nil {
			return nil, err
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
	_ = nap.For(ctx, each/4) // until everybody waits
	requests := w.requests.Load()
	c.measure(true)
	for tries := 0; tries < 20; tries++ { // a slow one may need longer to hand over at all
		_ = nap.For(ctx, each)
		if c.measure(true) > 0 {
			break
		}
	}
	c.measure(false)
	sent := w.requests.Load() - requests
	cancel()
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if len(c.gaps) == 0 {
		return nil, fmt.Errorf("no hand-off in %v", 20*each)
	}
	return summary(c.gaps, c.counts, sent), nil
}

// summary has a figure for each column. The first is that which is greater where the
// hand-off is faster.
func summary(gaps []time.Duration, counts []float64, requests int64) []float64 {
	slices.Sort(gaps)
	sum, squares := 0.0, 0.0
	for _, n := range counts {
		sum += n
		squares += n * n
	}
	n, p50, p99 := float64(len(counts)), gaps[len(gaps)/2].Seconds()*1e3, gaps[len(gaps)*99/100].Seconds()*1e3
	return []float64{1 / p50, p50, p99, float64(requests) / sum, sum * sum / (n * squares), slices.Min(counts) / (sum / n)}
}
