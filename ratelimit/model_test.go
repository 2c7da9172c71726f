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

// The model is the specification: token buckets that are counted in fractions, without
// rounding, one request after the other.
type model struct {
	now     time.Time
	buckets map[Bucket]*modelBucket
}

type modelBucket struct {
	tokens *big.Rat
	at     time.Time
}

func newModel(now time.Time) *model {
	return &model{now: now, buckets: map[Bucket]*modelBucket{}}
}

func (m *model) take(a ask) answer {
	decides := answer{taken: true, bucket: -1}
	need := new(big.Rat).SetInt64(a.cost)
	var turn time.Duration
	for i, b := range a.buckets {
		tokens := m.refilled(b).tokens
		short := new(big.Rat).Sub(need, tokens)
		if short.Sign() <= 0 {
			continue
		}
		wait := untilGained(short, b.Limit)
		if wait <= a.timeout {
			turn = max(turn, wait)
			continue
		}
		if decides.taken || wait-a.timeout > decides.wait {
			decides = answer{bucket: i, left: floor(tokens), wait: wait - a.timeout}
		}
	}
	if decides.taken {
		decides.wait = turn
		for i, b := range a.buckets {
			tokens := m.buckets[b].tokens
			tokens.Sub(tokens, need)
			if left := max(floor(tokens), 0); decides.bucket < 0 || left < decides.left {
				decides.bucket, decides.left = i, left
			}
		}
	}
	decides.left = max(decides.left, 0) // below 0 are waiting requests
	b := a.buckets[decides.bucket]
	full := new(big.Rat).SetInt64(b.Limit.Burst())
	decides.reset = untilGained(full.Sub(full, m.buckets[b].tokens), b.Limit)
	return decides
}

func untilGained(tokens *big.Rat, l limit.Limit) time.Duration {
	return time.Duration(ceil(new(big.Rat).Quo(tokens, perMicro(l)))) * time.Microsecond
}

func (m *model) refilled(b Bucket) *modelBucket {
	full := new(big.Rat).SetInt64(b.Limit.Burst())
	state, known := m.buckets[b]
	if !known {
		state = &modelBucket{tokens: full, at: m.now}
		m.buckets[b] = state
	}
	gained := new(big.Rat).SetInt64(m.now.Sub(state.at).Microseconds())
	state.tokens.Add(state.tokens, gained.Mul(gained, perMicro(b.Limit)))
	if state.tokens.Cmp(full) > 0 {
		state.tokens.Set(full)
	}
	state.at = m.now
	return state
}

func perMicro(l limit.Limit) *big.Rat {
	token, rate := l.Units()
	return big.NewRat(rate, token)
}

func ceil(r *big.Rat) int64 { return -floor(new(big.Rat).Neg(r)) }

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// The script makes the same decisions as the model: for any limits, steps of the clock,
// numbers of requests in a call, and buckets shared between them. One call per bucket,
// with giving back, makes the same decisions if requests come one at a time.
func TestTakeMatchesModel(t *testing.T) {
	t.Parallel()
	server, client := startEmbedded(t)
	l := New(client, patient)
	for maxAsks, take := range map[int]func(context.Context, []ask) []answer{6: l.take, 1: l.takePerSlot} {
		rapid.Check(t, func(rt *rapid.T) {
			server.FlushAll()
			agreesWithModel(rt, server.SetTime, take, maxAsks)
		})
	}
}

func agreesWithModel(t *rapid.T, setTime func(time.Time), take func(context.Context, []ask) []answer, maxAsks int) {
	setTime(epoch)
	m := newModel(epoch)
	pool := rapid.SliceOfN(rapid.Custom(drawLimit), 1, 4).Draw(t, "limits")
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		m.now = m.now.Add(drawPause(t, pool))
		setTime(m.now)
		asks := make([]ask, rapid.IntRange(1, maxAsks).Draw(t, "asks"))
		for i := range asks {
			asks[i] = drawAsk(t, pool)
		}
		for i, got := range take(context.Background(), asks) {
			got.at = 0 // the model has no clock of Redis
			if want := m.take(asks[i]); got != want {
				t.Fatalf("request of the limiter at %v, number %d of %v: got %+v, want %+v as in the model", m.now.Sub(epoch), i, asks, got, want)
			}
		}
	}
}

func drawLimit(t *rapid.T) limit.Limit {
	per := rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Millisecond, 7 * time.Millisecond, time.Second, 7 * time.Second, time.Hour,
	}).Draw(t, "per")
	l, err := limit.New(rapid.Int64Range(1, 1000).Draw(t, "tokens"), per, rapid.Int64Range(1, 20).Draw(t, "burst"))
	check.Must(t, err)
	return l
}

// drawPause prefers the times at which faults show: around the time after which a token,
// or the whole bucket, is refilled.
func drawPause(t *rapid.T, pool []limit.Limit) time.Duration {
	l := rapid.SampledFrom(pool).Draw(t, "limit to wait for")
	token := l.Window().Microseconds() / l.Burst()
	micros := rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(0, 3),
		rapid.Map(rapid.Int64Range(-1, 1), func(d int64) int64 { return token + d }),
		rapid.Map(rapid.Int64Range(-1, 1), func(d int64) int64 { return l.Window().Microseconds() + d }),
		rapid.Int64Range(0, 2*l.Window().Microseconds()),
	).Draw(t, "pause")
	return time.Duration(max(micros, 0)) * time.Microsecond
}

func drawAsk(t *rapid.T, pool []limit.Limit) ask {
	if rapid.IntRange(0, 3).Draw(t, "queue") == 0 {
		l := pool[0]
		token := l.Window() / time.Duration(l.Burst())
		longest := token * time.Duration(rapid.IntRange(0, 20).Draw(t, "longest"))
		return ask{
			cost:    rapid.Int64Range(1, l.Burst()).Draw(t, "cost"),
			buckets: []Bucket{{Name: "limit0", ID: "a", Limit: l, queues: true}},
			timeout: longest.Truncate(time.Microsecond),
		}
	}
	count := rapid.IntRange(1, len(pool)).Draw(t, "buckets")
	a := ask{cost: 1 << 30}
	for i := range count {
		a.buckets = append(a.buckets, Bucket{
			Name: fmt.Sprintf("limit%d", i), ID: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), Limit: pool[i],
		})
		a.cost = min(a.cost, pool[i].Burst()) // a cost above the burst never reaches the script
	}
	a.cost = rapid.Int64Range(1, a.cost).Draw(t, "cost")
	return a
}
