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
	p, err := c.open(w.addr)
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

// contended has processes, each with connections of its own, want one lock.
func contended(ctx context.Context, c lockContender, w *way, each time.Duration) (turns, error) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var released time.Time // when the last holder began to release
	var gaps []time.Duration
	counts, errs := make([]float64, processes), make([]error, processes)
	var measuring bool
	for i := range processes {
		p, err := c.open(w.addr)
		if err != nil {
			return turns{}, err
		}
		defer p.close()
		all.Go(func() {
			<-begin
			for ctx.Err() == nil {
				unlock, err := p.lock(ctx, "wanted")
				if ctx.Err() != nil {
					if err == nil {
						_ = unlock()
					}
					return
				}
				if err != nil {
					errs[i] = err
					cancel()
					return
				}
				got := time.Now()
				mu.Lock()
				if measuring {
					counts[i]++
					if !released.IsZero() {
						gaps = append(gaps, got.Sub(released))
					}
				}
				mu.Unlock()
				time.Sleep(hold)
				mu.Lock()
				released = time.Now()
				mu.Unlock()
				if err := unlock(); err != nil {
					errs[i] = err
					cancel()
					return
				}
				time.Sleep(think)
			}
		})
	}
	close(begin)
	if err := sleep(ctx, each/4); err == nil { // until everybody waits
		mu.Lock()
		measuring = true
		mu.Unlock()
	}
	requests := w.requests.Load()
	for tries := 0; tries < 20; tries++ { // a slow one may need longer to hand over at all
		_ = sleep(ctx, each)
		mu.Lock()
		n := len(gaps)
		mu.Unlock()
		if n > 0 {
			break
		}
	}
	mu.Lock()
	measuring = false
	mu.Unlock()
	sent := w.requests.Load() - requests
	cancel()
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return turns{}, err
	}
	if len(gaps) == 0 {
		return turns{}, fmt.Errorf("no hand-off in %v", 20*each)
	}
	return summary(gaps, counts, sent), nil
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
