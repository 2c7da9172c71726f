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

// The promise itself, without a bucket in it. A request of cost c at the moment
// t is due exactly if for every earlier moment s
//
//	admitted in [s, t] + c  ≤  burst + rate × (t - s)
//
// so this judges every answer: one that breaks it is too many in the window
// from s to t, and a refusal that no s explains is too few.

// moment is a request and its answer: for one that waited, at its departure.
type moment struct {
	at      time.Duration
	cost    int64
	allowed bool
}

// judge finds the first answer that is wrong. The moments are in order; those of
// the admitted may have been rounded up by as much as grain.
func judge(history []moment, l limit.Limit, grain time.Duration) error {
	for n, m := range history {
		sum := m.cost
		var over error
		// The window that holds this request alone, and then one more admitted
		// before it each time.
		if sum > l.Burst() {
			over = fmt.Errorf("%d at once", sum)
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
				over = fmt.Errorf("%d within %v, and %s are the bound", sum, window, bound.FloatString(3))
			}
		}
		switch {
		case m.allowed && over != nil:
			return fmt.Errorf("answer %d at %v: too many: %w", n, m.at, over)
		case !m.allowed && over == nil:
			return fmt.Errorf("answer %d at %v: too few: %d were due", n, m.at, m.cost)
		}
	}
	return nil
}

// Any limit, any requests at any moments, in all the ways in which a bucket is
// asked; and what judges them finds each twin's fault.
func TestNeverMoreInAnyWindowNeverLessThanDue(t *testing.T) {
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
		{"ours, remembering what was refused", script(false), true},
		{"ours, one call per slot", script(true), true},
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
				return judge(history, l, 0)
			}
			if c.holds {
				rapid.Check(t, func(rt *rapid.T) {
					check.Must(rt, one(rt))
				})
				return
			}
			// The twin: some of a few hundred examples show it.
			for seed := range 500 {
				if err := rapid.Custom(func(rt *rapid.T) error { return one(rt) }).Example(seed); err != nil {
					t.Logf("caught: %v", err)
					return
				}
			}
			t.Error("the judge finds nothing wrong with it")
		})
	}
}

// What Wait lets go, at the moments of departure (in whole microseconds), holds
// the same bound, and nobody waits longer than the bound asks.
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
				continue // more than an hour's queue
			}
			if got.wait > 0 {
				// A microsecond earlier would have been too early.
				history = append(history, moment{at.Sub(epoch) + got.wait - time.Microsecond, a.cost, false})
			}
			history = append(history, moment{at.Sub(epoch) + got.wait, a.cost, true})
		}
		check.Must(rt, judge(history, l, time.Microsecond))
	})
}
