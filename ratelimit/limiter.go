package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped by the error of a call that Redis did not answer in time, or
// answered with an error. It is then unknown whether tokens were taken.
var ErrUnavailable = errors.New("ratelimit: Redis unavailable")

// Config holds the settings of a Limiter. The zero Config is ready for use.
type Config struct {
	// Prefix is the first part of all keys: PREFIX:{name:id}. Limiters with the same
	// prefix share their buckets. Default DefaultPrefix.
	Prefix string
	// Timeout bounds one script call. A caller waits at most twice as long: for earlier
	// calls, and for its own call. Timeout takes effect only if the client has
	// redis.Options.ContextTimeoutEnabled set. After a failed call, one request at a time
	// tries again, 100 ms after the last failure. All other requests receive
	// ErrUnavailable at once. Default 1 s.
	Timeout time.Duration
	// Remember bounds the time for which a bucket's refusal is repeated from memory,
	// without asking Redis. The memory also ends with the refusal's RetryAfter. Until it
	// ends, a node does not notice tokens that another node has added, or a clock that
	// was set. Default 10 s, and at most 100 ms on a Redis Cluster. Below 0, nothing is
	// remembered.
	Remember time.Duration
	// Clock measures the age of remembered refusals. It must not go back. Nodes share
	// nothing that depends on it. Default time.Now.
	Clock func() time.Time
}

// DefaultPrefix is the default of Config.Prefix.
const DefaultPrefix = "rate"

// A Limiter asks Redis whether requests may pass. It is safe for concurrent use and needs
// no closing: it has at most two goroutines, only while calls are in flight, and each
// call ends within Config.Timeout.
type Limiter struct {
	client  redis.UniversalClient
	config  Config
	perSlot bool // one call per bucket: see slots.go
	queue   *queue
	health  *health
	refused *refusals
}

// New returns a Limiter on a Redis server, Sentinel, Cluster or Ring.
func New(client redis.UniversalClient, config Config) *Limiter {
	config.Timeout = cmp.Or(max(config.Timeout, 0), time.Second)
	config.Remember = cmp.Or(config.Remember, 10*time.Second)
	config.Prefix = cmp.Or(config.Prefix, DefaultPrefix)
	if config.Clock == nil {
		config.Clock = time.Now
	}
	l := &Limiter{client: client, config: config, health: &health{}, refused: &refusals{}}
	l.queue = l.newQueue()
	switch client.(type) {
	case interface{ Options() *redis.ClusterOptions }, interface{ Options() *redis.RingOptions }: // embedded clients, too
		l.perSlot = true
		l.config.Remember = min(config.Remember, slotRemember)
	}
	return l
}

// Peek takes no tokens. It returns the state of the bucket with the fewest tokens.
// Allowed reports whether every bucket has a token. Peek does not see queues of Wait. It
// returns the same errors as Allow.
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
		r.RetryAfter = max(r.Reset-b.refillTime(b.Limit.Burst()-1), time.Microsecond)
	}
	return r, nil
}

// Reset fills the buckets and ends their queues of Wait. Other nodes repeat remembered
// refusals for at most Config.Remember. Reset returns the same errors as Allow.
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
		return fmt.Errorf("%w: reset buckets: %w", ErrUnavailable, err)
	}
	return nil
}

// Grant adds tokens to each of the buckets, up to its burst. The call is sent only once,
// so after an error the tokens may have been added or not. Grant returns the same errors
// as Allow.
func (l *Limiter) Grant(ctx context.Context, tokens int, buckets ...Bucket) error {
	return l.give(ctx, tokens, 0, buckets)
}

// GiveBack returns tokens that a request took and does not need. r is the result of Allow
// or Admit for that request, and cost is the number of tokens to return to each of the
// buckets. GiveBack subtracts the tokens that were refilled since, because the bucket
// would give them out twice otherwise. If r is refused, GiveBack does nothing. A cost
// above that of r, or a result of Wait, is ErrBadRequest. The call is sent only once. The
// other errors are the same as for Allow.
func (l *Limiter) GiveBack(ctx context.Context, r Result, cost int, buckets ...Bucket) error {
	if !r.Allowed || r.at == 0 { // refused, or allowed without asking Redis
		return nil
	}
	if int64(cost) > r.cost {
		return fmt.Errorf("%w: %d tokens given back of %d that Allow took", ErrBadRequest, cost, r.cost)
	}
	return l.give(ctx, cost, r.at, buckets)
}

// give adds tokens to the buckets. at is the time at which they were taken, or 0 for a
// grant.
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

// giveUp gives a turn up. If the call fails, the turn stays unused.
func (l *Limiter) giveUp(ctx context.Context, turn ask) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.Timeout)
	defer cancel()
	l.pipeline(ctx, [][]ask{{turn}}, true)
}

// Allow takes cost tokens from each of the buckets. If one of them has too few, Allow
// takes none, and Result.Bucket names that bucket. A refusal is not an error: see
// Result.Allowed. Allow does not wait for tokens. A cost above a bucket's burst is always
// refused (Result.Never). Buckets that are Off are skipped. If no bucket is left, Allow
// does not ask Redis.
//
// An error wraps ErrBadRequest, ErrUnavailable or the error of ctx. If ctx ends during
// the call, the tokens may stay taken. Allow returns by the deadline of ctx, but after a
// cancellation it may take as long as Config.Timeout, because callers make the shared
// calls themselves.
func (l *Limiter) Allow(ctx context.Context, cost int, buckets ...Bucket) (Result, error) {
	a, err := newAsk(cost, buckets)
	if err != nil {
		return Result{}, err
	}
	return l.decide(ctx, a)
}

// decide answers the request from memory if possible. Otherwise it asks Redis.
func (l *Limiter) decide(ctx context.Context, a ask) (Result, error) {
	if len(a.buckets) == 0 {
		return Result{Allowed: true}, nil
	}
	if r, never := l.never(ctx, a); never {
		return r, nil
	}
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("ratelimit: context ended before the call: %w", err)
	}
	if l.config.Remember > 0 {
		if r, refused := l.refused.find(a, l.config.Clock()); refused {
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

// newAsk checks the arguments of a call. It copies the buckets, because the caller may
// reuse its slice during the call, and omits buckets that are Off.
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
				return ask{}, fmt.Errorf("%w: bucket %q appears twice", ErrBadRequest, b.Name)
			}
		}
		on = append(on, b)
	}
	return ask{cost: int64(cost), buckets: on}, nil
}

// never reports whether the cost is above a bucket's burst. The Result describes that
// bucket if Redis answers.
func (l *Limiter) never(ctx context.Context, a ask) (Result, bool) {
	for _, b := range a.buckets {
		if a.cost > b.Limit.Burst() {
			has, _ := l.peek(ctx, ask{buckets: []Bucket{b}})
			return Result{Bucket: b.Name, Limit: b.Limit, Remaining: has.Remaining, Reset: has.Reset, Never: true}, true
		}
	}
	return Result{}, false
}
