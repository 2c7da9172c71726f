package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped when Redis did not answer in time, or answered with an
// error. Whether tokens were taken is then unknown.
var ErrUnavailable = errors.New("ratelimit: Redis unavailable")

// Config adjusts a Limiter. The zero Config is ready for use.
type Config struct {
	// Prefix is what all keys begin with: PREFIX:{name:id}. Limiters with one
	// prefix share their buckets. Default "rate".
	Prefix string
	// Timeout bounds one script call. A caller waits at most twice as long: for
	// the calls before, then for its own. The client keeps to it only with
	// redis.Options.ContextTimeoutEnabled. After a failed call one request at a time
	// tries again, 100 ms after the last failure; all others hear ErrUnavailable at
	// once. Default 1 s.
	Timeout time.Duration
	// Remember is how long a bucket's refusal is given again from memory, without
	// asking Redis: until its RetryAfter, but no longer than this, so that a bucket
	// which another node fills, or a clock which is set, is noticed. Default 10 s,
	// and never more than 100 ms on a Redis Cluster; below 0 nothing is remembered.
	Remember time.Duration
	// Clock measures how long a refusal has been remembered. It must not go back.
	// Nothing that nodes share depends on it. Default time.Now.
	Clock func() time.Time
}

// Limiter asks Redis whether requests may pass. It is safe for concurrent use. It
// needs no closing: it has goroutines, two at most, only while calls are under way,
// and each call ends within Config.Timeout.
type Limiter struct {
	client  redis.UniversalClient
	config  Config
	perSlot bool // one call per bucket, see slots.go
	queue   *queue
	health  *health
	refused *refusals
}

// New returns a limiter on a Redis server, Sentinel, Cluster or Ring.
func New(client redis.UniversalClient, config Config) *Limiter {
	config.Timeout = cmp.Or(max(config.Timeout, 0), time.Second)
	config.Remember = cmp.Or(config.Remember, 10*time.Second)
	config.Prefix = cmp.Or(config.Prefix, "rate")
	if config.Clock == nil {
		config.Clock = time.Now
	}
	l := &Limiter{client: client, config: config, health: &health{}, refused: &refusals{}}
	l.queue = l.newQueue()
	switch client.(type) {
	case interface{ Options() *redis.ClusterOptions }, interface{ Options() *redis.RingOptions }: // also embedded
		l.perSlot = true
		l.config.Remember = min(config.Remember, slotRemember)
	}
	return l
}

// Peek takes nothing and tells about the bucket that has the fewest tokens: how many
// they are, and when it is full. Allowed says whether each bucket has a token. A queue
// of Wait is not seen. The errors are Allow's.
func (l *Limiter) Peek(ctx context.Context, buckets ...Bucket) (Result, error) {
	a, err := newAsk(1, buckets)
	if err != nil || len(a.buckets) == 0 {
		return Result{Allowed: err == nil}, err
	}
	return l.peek(ctx, a)
}

func (l *Limiter) peek(ctx context.Context, a ask) (Result, error) {
	a.cost = 0
	got, err := l.ask(ctx, a)
	if err != nil {
		return Result{}, err
	}
	r := a.result(got)
	if r.Allowed = r.Remaining > 0; !r.Allowed {
		b := a.buckets[got.bucket]
		r.RetryAfter = max(r.Reset-b.brings(b.Limit.Burst()-1), time.Microsecond)
	}
	return r, nil
}

// Reset fills buckets, and ends the queues that Wait made of them, as if nothing had
// ever been taken. Other nodes go on refusing what they remember, for Config.Remember
// at most. The errors are Allow's.
func (l *Limiter) Reset(ctx context.Context, buckets ...Bucket) error {
	a, err := newAsk(1, buckets)
	if err != nil || len(a.buckets) == 0 {
		return err
	}
	_, err = l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, b := range a.buckets {
			key := b.key(l.config.Prefix)
			b.queues = true
			queue := b.key(l.config.Prefix)
			p.Del(ctx, key, queue, queue+":gone")
		}
		return nil
	})
	l.refused.forget(a.buckets)
	if err != nil {
		return fmt.Errorf("%w: resetting: %w", ErrUnavailable, err)
	}
	return nil
}

// Grant adds tokens to each of the buckets, up to the burst of each. It is sent once
// only: after an error it may have been done or not. The errors are Allow's.
func (l *Limiter) Grant(ctx context.Context, tokens int, buckets ...Bucket) error {
	return l.give(ctx, tokens, 0, buckets)
}

// GiveBack returns tokens that a request took and does not need. r is what Allow, or
// Admit, returned to the request; cost is how many of its tokens to return, to each of
// the buckets. What the rate has brought in since is subtracted, or the bucket would
// give it out twice. A refused r returns nothing. More than r took, or a turn of
// Wait's, is ErrBadRequest. It is sent once only. The other errors are Allow's.
func (l *Limiter) GiveBack(ctx context.Context, r Result, cost int, buckets ...Bucket) error {
	if !r.Allowed || r.at == 0 { // refused, or let pass without asking
		return nil
	}
	if int64(cost) > r.cost {
		return fmt.Errorf("%w: %d tokens given back of %d that Allow took", ErrBadRequest, cost, r.cost)
	}
	return l.give(ctx, cost, r.at, buckets)
}

// give adds tokens: those that were taken at a moment, or with 0 a gift.
func (l *Limiter) give(ctx context.Context, tokens int, at int64, buckets []Bucket) error {
	a, err := newAsk(tokens, buckets)
	if err != nil || len(a.buckets) == 0 {
		return err
	}
	var gifts [][]ask
	for _, b := range a.buckets {
		gifts = append(gifts, []ask{{cost: -a.cost, buckets: []Bucket{b}, taken: at}})
	}
	answers := l.pipeline(ctx, gifts, true)
	l.refused.forget(a.buckets)
	for _, got := range answers {
		err = errors.Join(err, got[0].err)
	}
	return err
}

// giveUp gives a turn up. If that fails, the turn is lost.
func (l *Limiter) giveUp(ctx context.Context, turn ask) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.Timeout)
	defer cancel()
	l.pipeline(ctx, [][]ask{{turn}}, true)
}

// Allow takes cost tokens from each of the buckets. If one of them has fewer, it takes
// none, and Result.Bucket names that bucket. A refusal is no error: see Result.Allowed.
// Allow does not wait for tokens. A cost above a bucket's burst is always refused
// (Result.Never). Buckets that are Off are skipped; if none is left, Redis isn't asked.
//
// The error wraps ErrBadRequest, ErrUnavailable, or the context's own. If the context
// ends while the call is under way, the tokens may stay taken. A cancelled Allow may
// return late, by Config.Timeout at most: callers make the shared calls themselves, and
// such a caller waits for the answer. A deadline is kept.
func (l *Limiter) Allow(ctx context.Context, cost int, buckets ...Bucket) (Result, error) {
	a, err := newAsk(cost, buckets)
	if err != nil {
		return Result{}, err
	}
	return l.decide(ctx, a)
}

// decide answers what it can by itself, and asks Redis for the rest.
func (l *Limiter) decide(ctx context.Context, a ask) (Result, error) {
	if len(a.buckets) == 0 {
		return Result{Allowed: true}, nil
	}
	if r, never := l.never(ctx, a); never {
		return r, nil
	}
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("ratelimit: before asking: %w", err)
	}
	if l.config.Remember > 0 {
		if r, refused := l.refused.again(a, l.config.Clock()); refused {
			return r, nil
		}
	}
	asked := l.config.Clock()
	answered, err := l.ask(ctx, a)
	if err != nil {
		return Result{}, err
	}
	if !answered.taken && l.config.Remember > 0 {
		l.refused.learn(a, answered, asked, l.config.Clock(), l.config.Remember)
	}
	return a.result(answered), nil
}

// newAsk checks a call's arguments and copies the buckets that count: the
// caller may use its slice again while ours is still in flight.
func newAsk(cost int, buckets []Bucket) (ask, error) {
	if cost < 1 {
		return ask{}, fmt.Errorf("%w: the cost %d is below 1", ErrBadRequest, cost)
	}
	if len(buckets) > maxBuckets {
		return ask{}, fmt.Errorf("%w: %d buckets, more than %d", ErrBadRequest, len(buckets), maxBuckets)
	}
	on := make([]Bucket, 0, len(buckets))
	for _, b := range buckets {
		if b.Limit.IsOff() {
			continue
		}
		if err := b.check(); err != nil {
			return ask{}, err
		}
		for _, other := range on {
			if other.Name == b.Name && other.ID == b.ID {
				return ask{}, fmt.Errorf("%w: bucket %q stands twice", ErrBadRequest, b.Name)
			}
		}
		on = append(on, b)
	}
	return ask{cost: int64(cost), buckets: on}, nil
}

// never tells whether the cost is above a bucket's burst, and what that bucket holds, if
// Redis answers.
func (l *Limiter) never(ctx context.Context, a ask) (Result, bool) {
	for _, b := range a.buckets {
		if a.cost > b.Limit.Burst() {
			has, _ := l.peek(ctx, ask{buckets: []Bucket{b}})
			return Result{Bucket: b.Name, Limit: b.Limit, Remaining: has.Remaining, Reset: has.Reset, Never: true}, true
		}
	}
	return Result{}, false
}
