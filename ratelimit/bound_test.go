package ratelimit

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// On a real server nobody sets the clock, so the model can't say what each
// answer must be. What can be judged from outside is the promise itself:
// never more than the bound in any window, never less than due.

// observed is one answer, and between which moments it was given.
type observed struct {
	from, to time.Duration
	allowed  bool
}

// slack covers the drift of Redis's wall clock against our monotonic one.
const slack = 0.5 // tokens

// tooMany looks for a window in which more was admitted than burst + rate*t.
// An answer counts for a window only if it was surely given within it.
func tooMany(history []observed, rate, burst float64) error {
	admitted := only(history, true)
	for i := range admitted {
		var ends []time.Duration
		for _, a := range admitted[i:] {
			ends = append(ends, a.to)
		}
		sort.Slice(ends, func(a, b int) bool { return ends[a] < ends[b] })
		for n, end := range ends {
			window := (end - admitted[i].from).Seconds()
			if float64(n+1) > burst+rate*window+slack {
				return fmt.Errorf("%d admitted within %.6f s, and %.1f are the bound", n+1, window, burst+rate*window)
			}
		}
	}
	return nil
}

// tooFew looks for a refusal without a reason. A bucket is empty only if, since
// some moment, burst-1 tokens more were taken than came in; each admission that
// may have been before the refusal counts, at the latest moment it may have been.
func tooFew(history []observed, rate, burst float64) error {
	admitted := only(history, true)
	for _, r := range only(history, false) {
		var moments []time.Duration
		for _, a := range admitted {
			if a.from <= r.to {
				moments = append(moments, min(a.to, r.to))
			}
		}
		sort.Slice(moments, func(a, b int) bool { return moments[a] > moments[b] })
		justified := false
		for n, at := range moments {
			cameIn := rate * max(0, (r.from-at).Seconds())
			justified = justified || float64(n+1)-cameIn > burst-1-slack
		}
		if !justified {
			return fmt.Errorf("refused at %v although %v tokens were due", r.from, burst)
		}
	}
	return nil
}

func only(history []observed, allowed bool) []observed {
	var some []observed
	for _, o := range history {
		if o.allowed == allowed {
			some = append(some, o)
		}
	}
	sort.Slice(some, func(a, b int) bool { return some[a].from < some[b].from })
	return some
}

func TestBoundOnARealServer(t *testing.T) {
	const rate, burst = 1000, 100
	client := startReal(t)
	loaded(t, client)
	for _, c := range []struct {
		name  string
		allow func(l *Limiter, b Bucket) (bool, error)
		holds bool
	}{
		{"ours", func(l *Limiter, b Bucket) (bool, error) {
			r, err := l.Allow(t.Context(), 1, b)
			return r.Allowed, err
		}, true},
		{"ours, one call per slot", func(l *Limiter, b Bucket) (bool, error) {
			a := l.takePerSlot(t.Context(), []ask{{cost: 1, buckets: []Bucket{b}}})[0]
			return a.taken, a.err
		}, true},
		{"a fixed window", twin(t, client, "fixed_window"), false},
		{"a floored refill", twin(t, client, "floored_refill"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := forBuyer(t.Name(), parse(t, fmt.Sprintf("%d/s:%d", rate, burst)))
			history := observe(t, client, func(l *Limiter) (bool, error) { return c.allow(l, b) })
			many, few := tooMany(history, rate, burst), tooFew(history, rate, burst)
			if got := many == nil && few == nil; got != c.holds {
				t.Errorf("%d answers: too many: %v, too few: %v", len(history), many, few)
			}
		})
	}
}

// observe lets eight callers on two nodes ask in bursts with pauses for
// 400 ms, and keeps what they were told.
func observe(t *testing.T, client *redis.Client, allow func(*Limiter) (bool, error)) []observed {
	nodes := []*Limiter{New(client, patient), New(client, patient)}
	var (
		mu      sync.Mutex
		history []observed
		wg      sync.WaitGroup
	)
	begin := time.Now()
	for caller := range 8 {
		wg.Go(func() {
			pause := time.NewTicker(20 * time.Millisecond)
			defer pause.Stop()
			for time.Since(begin) < 400*time.Millisecond {
				for range 15 {
					from := time.Since(begin)
					allowed, err := allow(nodes[caller%2])
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					history = append(history, observed{from, time.Since(begin), allowed})
					mu.Unlock()
				}
				<-pause.C
			}
		})
	}
	wg.Wait()
	return history
}

func twin(t *testing.T, client *redis.Client, name string) func(*Limiter, Bucket) (bool, error) {
	e := readAntipattern(t, name)
	return func(_ *Limiter, b Bucket) (bool, error) {
		return e.ask(context.Background(), visit{client: client}, []Bucket{b})
	}
}
