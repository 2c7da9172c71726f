package ratelimit

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/ratelimit/limit"
)

// Three names for one thing: the token bucket, the leaky bucket as a meter, and
// GCRA admit the same requests as long as the clock goes forward. So there is
// one implementation, and it keeps what the other two can't tell apart: a clock
// that went back, and tokens that were taken (see take.lua).

// meter is the leaky bucket: what passes is poured in, and it leaks at the
// rate. What would spill over is refused.
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

// gcra is the generic cell rate algorithm (ITU-T I.371): all it keeps is the
// theoretical arrival time, when everything admitted would have been paid for.
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

func TestMeterAndGCRAAreTheSame(t *testing.T) {
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
				rt.Fatalf("at %v the meter says %v", at, got)
			}
			if got := cells.take(l, at, cost); got != want {
				rt.Fatalf("at %v GCRA says %v", at, got)
			}
		}
	})
}

// Where they differ: an hour's step back of the clock leaves GCRA's one moment
// in the future, which reads like an hour's tokens taken.
func TestGCRALosesItsHeadWhenTheClockGoesBack(t *testing.T) {
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
			t.Errorf("step %d: ours says %v", n, got)
		}
		if got := cells.take(l, step.at, 1); got != step.gcra {
			t.Errorf("step %d: GCRA says %v", n, got)
		}
	}
}
