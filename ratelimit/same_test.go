package ratelimit

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/ratelimit/limit"
)

// While the clock goes forward, the token bucket, the leaky bucket as a meter, and GCRA
// admit the same requests. This package has only the token bucket, because it alone
// distinguishes a clock that went back from tokens that were taken (see take.lua).

// A meter is the leaky bucket: requests fill it, and it leaks at the rate. A request that
// would make it overflow is refused.
type meter struct {
	level *big.Rat
	at    time.Duration
}

func (m *meter) take(l limit.Limit, at time.Duration, cost int64) bool {
	leaked := big.NewRat((at - m.at).Microseconds(), 1)
	m.level.Sub(m.level, leaked.Mul(leaked, perMicro(l)))
	if m.level.Sign() < 0 {
		m.level.SetInt64(0)
	}
	m.at = at
	full := new(big.Rat).Add(m.level, new(big.Rat).SetInt64(cost))
	if full.Cmp(new(big.Rat).SetInt64(l.Burst())) > 0 {
		return false
	}
	m.level = full
	return true
}

// gcra is the generic cell rate algorithm (ITU-T I.371). It stores only the theoretical
// arrival time, at which all admitted requests would be paid for.
type gcra struct{ arrival *big.Rat } // microseconds

func (g *gcra) take(l limit.Limit, at time.Duration, cost int64) bool {
	now := big.NewRat(at.Microseconds(), 1)
	interval := new(big.Rat).Inv(perMicro(l))
	next := new(big.Rat).Set(g.arrival)
	if next.Cmp(now) < 0 {
		next.Set(now)
	}
	next.Add(next, new(big.Rat).Mul(interval, new(big.Rat).SetInt64(cost)))
	tolerance := new(big.Rat).Mul(interval, new(big.Rat).SetInt64(l.Burst()))
	if new(big.Rat).Sub(next, now).Cmp(tolerance) > 0 {
		return false
	}
	g.arrival = next
	return true
}

func TestMeterAndGCRADecideAlike(t *testing.T) {
	t.Parallel()
	server, client := startEmbedded(t)
	limiter := New(client, Config{Timeout: time.Hour, Remember: -1})
	rapid.Check(t, func(rt *rapid.T) {
		server.FlushAll()
		l := drawLimit(rt)
		b := forBuyer("b1", l)
		leaky, cells := &meter{level: new(big.Rat)}, &gcra{arrival: new(big.Rat)}
		var at time.Duration
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			at += drawPause(rt, []limit.Limit{l})
			cost := rapid.Int64Range(1, l.Burst()).Draw(rt, "cost")
			server.SetTime(epoch.Add(at))
			want := allow(t, limiter, int(cost), b).Allowed
			if got := leaky.take(l, at, cost); got != want {
				rt.Fatalf("meter at %v: got %v, want %v", at, got, want)
			}
			if got := cells.take(l, at, cost); got != want {
				rt.Fatalf("GCRA at %v: got %v, want %v", at, got, want)
			}
		}
	})
}

// If the clock goes back by an hour, GCRA's arrival time is an hour in the future, as if
// the tokens of an hour had been taken.
func TestGCRARefusesAfterClockWentBack(t *testing.T) {
	server, client := startEmbedded(t)
	l := parse(t, "1/s:2")
	b, cells := forBuyer("b1", l), &gcra{arrival: new(big.Rat)}
	limiter := New(client, Config{Timeout: time.Hour, Remember: -1})
	for n, step := range []struct {
		at         time.Duration
		ours, gcra bool
	}{
		{2 * time.Hour, true, true}, {2 * time.Hour, true, true},
		{time.Hour, false, false}, {time.Hour + time.Second, true, false}, {time.Hour + time.Minute, true, false},
	} {
		server.SetTime(epoch.Add(step.at))
		if got := allow(t, limiter, 1, b).Allowed; got != step.ours {
			t.Errorf("step %d at this limiter: got %v, want %v", n, got, step.ours)
		}
		if got := cells.take(l, step.at, 1); got != step.gcra {
			t.Errorf("step %d at GCRA: got %v, want %v", n, got, step.gcra)
		}
	}
}
