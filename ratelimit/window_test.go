package ratelimit

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/limit"
)

// The promise of the package does not mention a bucket. A request of cost c at time t is
// due exactly if for every earlier time s
//
//	admitted in [s, t] + c  ≤  burst + rate × (t - s)
//
// checkBound applies this rule to every answer. If an allowed request breaks the rule for some s,
// the limiter has admitted too much in the window from s to t. If a request is refused although
// the rule holds for every s, the limiter has admitted too little.

// A moment is a request and its answer, at the departure if the request waited.
type moment struct {
	at      time.Duration
	cost    int64
	allowed bool
}

// checkBound returns an error for the first wrong answer. The moments are in order. The times of
// allowed requests may have been rounded up by at most grain.
func checkBound(history []moment, l limit.Limit, grain time.Duration) error {
	for n, m := range history {
		sum := m.cost
		var over error
		// The first window contains this request alone. Each further one adds an allowed
		// request before it.
		if sum > l.Burst() {
			over = fmt.Errorf("answers at one moment: got %d tokens, want at most the burst", sum)
		}
		for i := n - 1; i >= 0 && over == nil; i-- {
			if !history[i].allowed {
				continue
			}
			sum += history[i].cost
			window := m.at - history[i].at
			if m.allowed {
				window += grain
			}
			bound := big.NewRat(window.Microseconds(), 1)
			bound.Mul(bound, perMicro(l)).Add(bound, new(big.Rat).SetInt64(l.Burst()))
			if new(big.Rat).SetInt64(sum).Cmp(bound) > 0 {
				over = fmt.Errorf("answers in a window: got %d tokens within %v, want at most %s", sum, window, bound.FloatString(3))
			}
		}
		switch {
		case m.allowed && over != nil:
			return fmt.Errorf("answer %d at %v: it allows too much: %w", n, m.at, over)
		case !m.allowed && over == nil:
			return fmt.Errorf("answer %d at %v: got a refusal of a cost of %d that was due, want it allowed", n, m.at, m.cost)
		}
	}
	return nil
}

// The rule holds for any limits and requests, with each way of asking, and it finds the
// fault of each broken twin.
func TestEveryAnswerKeepsTheBound(t *testing.T) {
	t.Parallel()
	server, client := startEmbedded(t)
	now := epoch
	setTime := func(at time.Time) {
		now = at
		server.SetTime(at)
	}
	type way func() func(ask) bool
	script := func(perSlot bool) way {
		return func() func(ask) bool {
			l := New(client, Config{Timeout: time.Hour, Clock: func() time.Time { return now }})
			l.perSlot = perSlot
			return func(a ask) bool {
				r, err := l.Allow(context.Background(), int(a.cost), a.buckets...)
				return err == nil && r.Allowed
			}
		}
	}
	broken := func(name string) way {
		return func() func(ask) bool {
			source := readAntipattern(t, name).source
			return func(a ask) bool {
				l := a.buckets[0].Limit
				ok, err := client.Eval(context.Background(), source, []string{a.buckets[0].key(defaultPrefix)},
					l.Burst(), l.Window().Microseconds(), l.Burst(), a.cost).Bool()
				return err == nil && ok
			}
		}
	}
	for _, c := range []struct {
		name  string
		start way
		holds bool
	}{
		{"this limiter, with memory", script(false), true},
		{"this limiter, one call per slot", script(true), true},
		{"integer seconds", broken("integer_seconds"), false},
		{"floored refill", broken("floored_refill"), false},
		{"fixed window", broken("fixed_window"), false},
		{"key that expires too early", broken("ttl_zero"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := func(rt *rapid.T) error {
				server.FlushAll()
				setTime(epoch)
				take := c.start()
				l := drawLimit(rt)
				var history []moment
				for range rapid.IntRange(1, 40).Draw(rt, "requests") {
					setTime(now.Add(drawPause(rt, []limit.Limit{l})))
					a := ask{cost: rapid.Int64Range(1, l.Burst()).Draw(rt, "cost"), buckets: []Bucket{forBuyer("b1", l)}}
					history = append(history, moment{now.Sub(epoch), a.cost, take(a)})
				}
				return checkBound(history, l, 0)
			}
			if c.holds {
				rapid.Check(t, func(rt *rapid.T) {
					check.Must(rt, one(rt))
				})
				return
			}
			// Some of a few hundred examples must show the fault of a twin.
			for seed := range 500 {
				if err := rapid.Custom(func(rt *rapid.T) error { return one(rt) }).Example(seed); err != nil {
					t.Logf("found: %v", err)
					return
				}
			}
			t.Error("limiter with a fault: got no violation, so the check proves nothing")
		})
	}
}

// Departures from a queue, in whole microseconds, keep the same bound, and no request
// waits longer than necessary.
func TestDeparturesKeepTheBound(t *testing.T) {
	t.Parallel()
	server, client := startEmbedded(t)
	rapid.Check(t, func(rt *rapid.T) {
		server.FlushAll()
		l := drawLimit(rt)
		b := Bucket{Name: "q", ID: "1", Limit: l, queues: true}
		at := epoch
		limiter := New(client, patient)
		var history []moment
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			at = at.Add(drawPause(rt, []limit.Limit{l}))
			server.SetTime(at)
			a := ask{cost: rapid.Int64Range(1, l.Burst()).Draw(rt, "cost"), buckets: []Bucket{b}, timeout: time.Hour}
			got := limiter.take(context.Background(), []ask{a})[0]
			if !got.taken {
				continue // the queue is longer than an hour
			}
			if got.wait > 0 {
				// A departure one microsecond earlier would break the bound.
				history = append(history, moment{at.Sub(epoch) + got.wait - time.Microsecond, a.cost, false})
			}
			history = append(history, moment{at.Sub(epoch) + got.wait, a.cost, true})
		}
		check.Must(rt, checkBound(history, l, time.Microsecond))
	})
}
