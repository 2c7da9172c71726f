package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped when Redis did not answer, or not in time. Whether
// tokens were taken is then unknown.
var ErrUnavailable = errors.New("ratelimit: Redis unavailable")

// DefaultTimeout is the time a script call may take when Config says nothing.
const DefaultTimeout = time.Second

// DefaultRemember is how long a refusal is remembered at most when Config says
// nothing.
const DefaultRemember = 10 * time.Second

// DefaultPrefix is what keys begin with when Config says nothing.
const DefaultPrefix = "rate"

// Config adjusts a Limiter. The zero Config is ready for use.
type Config struct {
	// Prefix is what all keys begin with: PREFIX:{name:id}. Limiters with one
	// prefix share their buckets. Default DefaultPrefix.
	Prefix string
	// Timeout bounds one script call, default DefaultTimeout. A caller waits
	// at most twice as long: for the calls before, then for its own. The
	// client keeps to it only with redis.Options.ContextTimeoutEnabled.
	// After a failed call one request every 100 ms asks again, and the others
	// hear ErrUnavailable at once.
	Timeout time.Duration
	// Remember is how long a bucket's refusal is given again from memory
	// without asking Redis: until its RetryAfter, but no longer than this, so
	// that a bucket which an operator empties, or a clock which is set, is
	// noticed. Default DefaultRemember; below 0 every request is asked.
	Remember time.Duration
	// OnDecision, if set, hears of each of Admit's, Wait's and the
	// middleware's decisions. It is called by many goroutines at once and must
	// not block.
	OnDecision func(Decision)
	// Clock tells for how long something was remembered or, while Redis is
	// away, counted. It must not go back. Nothing that nodes share depends on
	// it. Default time.Now.
	Clock func() time.Time
}

// Limiter asks Redis whether requests may pass. It is safe for concurrent use
// and needs no closing: it has a goroutine only while a call is under way, at
// most two, and each call ends within Config.Timeout.
type Limiter struct {
	client  redis.UniversalClient
	config  Config
	rules   *Rules // nil: none were given
	perSlot bool   // one call per bucket, see slots.go
	queue   *queue
	health  *health
	refused *refusals
	local   *local
}

// New returns a limiter on a Redis server, Sentinel or Cluster.
func New(client redis.UniversalClient, config Config) *Limiter {
	config.Timeout = cmp.Or(max(config.Timeout, 0), DefaultTimeout)
	config.Remember = cmp.Or(config.Remember, DefaultRemember)
	config.Prefix = cmp.Or(config.Prefix, DefaultPrefix)
	if config.OnDecision == nil {
		config.OnDecision = func(Decision) {}
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	l := &Limiter{
		client: client, config: config,
		health: &health{}, refused: &refusals{}, local: newLocal(config.Clock()),
	}
	l.queue = l.newQueue()
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		l.perSlot = true
		l.config.Remember = min(config.Remember, slotRemember)
	}
	return l
}

// With is the same limiter under a route's rules: they share everything else,
// what is remembered as well.
func (l *Limiter) With(rules Rules) *Limiter {
	other := *l
	other.rules = &rules
	return &other
}

// Peek tells what is left in the buckets, of the one with least, and changes
// nothing. Allowed says whether each has a token. Its errors are Allow's; no rules
// apply.
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
		r.RetryAfter = max(r.Reset-micros((r.Limit.full()-r.Limit.unit)/r.Limit.rate), time.Microsecond)
	}
	return r, nil
}

// Reset fills buckets and ends their queues, as if nothing had ever been taken.
// Other nodes go on refusing what they remember, for Config.Remember at most. The
// errors are Allow's.
func (l *Limiter) Reset(ctx context.Context, buckets ...Bucket) error {
	a, err := newAsk(1, buckets)
	if err != nil || len(a.buckets) == 0 {
		return err
	}
	_, err = l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, b := range a.buckets {
			b.queues = true
			queue := b.key(l.config.Prefix)
			b.queues = false
			p.Del(ctx, b.key(l.config.Prefix), queue, queue+":gone")
		}
		return nil
	})
	l.refused.forget(a.buckets)
	if err != nil {
		return fmt.Errorf("%w: resetting: %w", ErrUnavailable, err)
	}
	return nil
}

// Grant adds tokens to each of the buckets, which hold no more than their burst. It
// is not sent again by itself: after an error it may have been done. The errors are
// Allow's.
func (l *Limiter) Grant(ctx context.Context, tokens int, buckets ...Bucket) error {
	return l.give(ctx, tokens, 0, buckets)
}

// GiveBack gives back what a request took that was allowed with this result, and
// that needs it no more: what is still missing of it, and not what has come in
// since. It is not sent again by itself. The errors are Allow's.
func (l *Limiter) GiveBack(ctx context.Context, r Result, cost int, buckets ...Bucket) error {
	if !r.Allowed || r.at == 0 { // refused, or let pass without asking
		return nil
	}
	return l.give(ctx, cost, r.at, buckets)
}

// give gives what was taken at a moment, 0 for at any.
func (l *Limiter) give(ctx context.Context, tokens int, at int64, buckets []Bucket) error {
	a, err := newAsk(tokens, buckets)
	if err != nil || len(a.buckets) == 0 {
		return err
	}
	var gifts [][]ask
	for _, b := range a.buckets {
		gifts = append(gifts, []ask{{cost: -a.cost, buckets: []Bucket{b}, taken: at}})
	}
	answers, _ := l.pipeline(ctx, gifts, l.evalShaOnce)
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
	l.pipeline(ctx, [][]ask{{turn}}, l.evalShaOnce)
}

// Allow takes cost tokens from each of the buckets, or from none of them when
// one has fewer, and tells which. It does not wait for tokens. A cost above a
// bucket's burst is refused (Result.Never). Buckets that are Off are skipped; if
// none is left, Redis isn't asked. The rules apply that With has given, if any.
//
// The error wraps ErrBadRequest, ErrUnavailable, or the context's own. Tokens
// of a caller that gave up while its call was under way stay taken. A caller who
// finds nobody before it makes the call itself, for whoever came with it: it
// can't be cancelled until the answer is there, or Config.Timeout over. (Its
// deadline holds: with one that is nearer than that it doesn't make the call.)
func (l *Limiter) Allow(ctx context.Context, cost int, buckets ...Bucket) (Result, error) {
	a, err := newAsk(cost, buckets)
	if err != nil {
		return Result{}, err
	}
	if l.rules == nil {
		return l.decide(ctx, a)
	}
	result, err := l.judge(ctx, a)
	if limited := (*LimitedError)(nil); errors.As(err, &limited) {
		err = nil
	}
	return result, err
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

// never tells whether a bucket can't ever hold what is asked, and what it holds, if
// Redis says.
func (l *Limiter) never(ctx context.Context, a ask) (Result, bool) {
	for _, b := range a.buckets {
		if a.cost > b.Limit.burst {
			has, _ := l.peek(ctx, ask{buckets: []Bucket{b}})
			return Result{Bucket: b.Name, Limit: b.Limit, Remaining: has.Remaining, Reset: has.Reset, Never: true}, true
		}
	}
	return Result{}, false
}
